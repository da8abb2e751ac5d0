//! How many units a request costs, as far as that is known before it is served.

use http::HeaderName;
use http::header::CONTENT_LENGTH;

use super::fields;
use super::{Cost, Policy, Subject};

impl Subject<'_, '_> {
    /// The units that `policy` takes for this request at first. A request that
    /// costs nothing is never refused.
    pub fn cost(&self, policy: &Policy) -> u64 {
        match &policy.cost {
            Cost::Fixed(units) => *units,
            Cost::Field { name, default, max } => {
                self.declared(name).map_or(*default, |units| units.min(*max))
            }
            Cost::Body { unit_bytes } => self.content_length().map_or(1, |bytes| {
                // One unit stands for a body of unknown length, and for none.
                bytes.div_ceil(unit_bytes.get())
            }),
            // Of nothing, nothing would ever be refused, whatever it settles.
            Cost::Metered { reserve, .. } => (*reserve).max(1),
        }
    }

    /// The cost that a trusted peer names; none from others, and if it is no number.
    fn declared(&self, name: &HeaderName) -> Option<u64> {
        if !self.is_from_trusted_peer() {
            return None;
        }
        number(fields::header(self.request.headers(), name).ok()?)
    }

    fn content_length(&self) -> Option<u64> {
        number(fields::header(self.request.headers(), &CONTENT_LENGTH).ok()?)
    }
}

/// Decimal digits only; what 64 bits do not hold is the largest number, so that
/// a long one is not cheaper than a short one.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        text.iter().fold(0_u64, |number, digit| {
            number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        })
    })
}

#[cfg(test)]
mod tests;
