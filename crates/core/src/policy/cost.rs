//! The units that a request costs, as far as the cost is known before the response.

use http::HeaderName;
use http::header::CONTENT_LENGTH;

use super::fields;
use super::whole_number::whole_number;
use super::{Cost, Policy, Subject};
use crate::request::{Content, ContentWord};

impl Subject<'_, '_> {
    /// The units that `policy` charges for this request at first. A request that costs 0
    /// units is never refused.
    pub fn cost(&self, policy: &Policy) -> u64 {
        match &policy.cost {
            Cost::Fixed(units) => *units,
            Cost::Field { name, default, max } => {
                self.declared(name).map_or(*default, |units| units.min(max.unwrap_or(u64::MAX)))
            }
            Cost::Body { unit_bytes } => self.content_length().map_or(1, |bytes| {
                // A body of unknown length, or no body, costs one unit.
                bytes.div_ceil(unit_bytes.get())
            }),
            Cost::Calls => self.calls(),
            cost @ Cost::Metered { reserve, .. } => match self.estimate(policy) {
                Some(estimate) => cost.reserved(&estimate),
                // A reservation of 0 units would never be refused, whatever the response costs.
                None => (*reserve).max(1),
            },
        }
    }

    /// Whether at most the limit of the client is charged of the [cost](Self::cost) under `policy`,
    /// which the request names.
    pub(crate) fn has_unbounded_cost(&self, policy: &Policy) -> bool {
        match &policy.cost {
            Cost::Field { name, max: None, .. } => self.declared(name).is_some(),
            _ => false,
        }
    }

    /// The calls in the body. A body that was not read, or cannot be, has one.
    fn calls(&self) -> u64 {
        match self.request.values() {
            Content::Read(values) => {
                let read = values.get(&ContentWord::Calls).ok().flatten();
                read.and_then(whole_number).unwrap_or(1)
            }
            Content::Empty => 0,
            Content::Unknown | Content::Unread => u64::from(self.request.has_content()),
        }
    }

    /// Whether programs read other calls in the body, or another request for tokens, on which the
    /// cost under this policy depends.
    pub(crate) fn has_ambiguous_cost(&self, policy: &Policy) -> bool {
        let Content::Read(values) = self.request.values() else { return false };
        policy.cost == Cost::Calls && values.get(&ContentWord::Calls).is_err()
            || policy.asks_usage && values.get(&ContentWord::AskUsage).is_err()
    }

    /// The cost that a trusted peer names. None if the peer is not trusted, or the value is
    /// not a number.
    fn declared(&self, name: &HeaderName) -> Option<u64> {
        if !self.is_from_trusted_peer() {
            return None;
        }
        whole_number(fields::header(self.request.fields(), name).ok()?)
    }

    pub(super) fn content_length(&self) -> Option<u64> {
        whole_number(fields::header(self.request.fields(), &CONTENT_LENGTH).ok()?)
    }
}

#[cfg(test)]
mod tests;
