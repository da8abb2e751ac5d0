//! The lists of `RateLimit-Policy` and of `RateLimit`, as structured fields (RFC 9651).

use std::borrow::Borrow;
use std::cell::RefCell;
use std::io::Write as _;
use std::sync::Arc;

use http::HeaderValue;

use super::{Decision, Report};
use crate::algorithm::Retry;
use crate::policy::{Policy, Unit};
use crate::request::scan;
use crate::time::Span;

thread_local! {
    /// The last value of `RateLimit-Policy` for one policy. Most requests of a thread have the
    /// same one, and it is not formatted again for them.
    static LAST_QUOTA: RefCell<Option<Quota>> = const { RefCell::new(None) };
}

/// Whole seconds to wait, at least one. None if waiting does not help or is not needed.
pub(super) fn wait_secs(retry: Retry) -> Option<u64> {
    match retry {
        Retry::After(wait) => Some(wait.as_secs_ceil().max(1)),
        Retry::Now | Retry::Never => None,
    }
}

/// The value of `RateLimit-Policy` for one policy.
struct Quota {
    name: Box<str>,
    limit: u64,
    length: Span,
    unit: Unit,
    value: HeaderValue,
}

/// The value of `RateLimit-Policy`.
pub(super) fn quotas<P: Borrow<Arc<Policy>>>(decision: &Decision<P>) -> HeaderValue {
    let write = || List::value(|list| add_policies(decision, list));
    let mut told = decision.told();
    let (Some(Report { policy, verdict, length, .. }), None) = (told.next(), told.next()) else {
        return write();
    };
    let policy = policy.borrow();
    let (name, limit, unit) = (&*policy.name, verdict.limit, policy.unit());
    LAST_QUOTA.with_borrow_mut(|last| match last {
        Some(it)
            if it.limit == limit
                && it.length == *length
                && it.unit == unit
                && *it.name == *name =>
        {
            it.value.clone()
        }
        _ => {
            let value = write();
            let (name, length, kept) = (name.into(), *length, value.clone());
            *last = Some(Quota { name, limit, length, unit, value: kept });
            value
        }
    })
}

/// The list of `RateLimit-Policy`: the quota of each policy.
fn add_policies<P: Borrow<Arc<Policy>>>(decision: &Decision<P>, list: &mut List<'_>) {
    for Report { policy, verdict, length, .. } in decision.told() {
        list.add(&policy.borrow().name);
        list.describe(b'q', verdict.limit);
        match policy.borrow().unit() {
            Unit::Requests => {}
            Unit::Tokens => list.0.extend_from_slice(b";qu=\"tokens\""),
            // Millionths of the dollar are `usd-6`.
            Unit::Money(money) => write!(list.0, ";qu=\"{money}\"").expect("it is in memory"),
        }
        // The field contains whole seconds only. Rounding a window up states a lower rate.
        // Below one second the stated rate would be far too low.
        if *length >= Span::SECOND {
            list.describe(b'w', length.as_secs_ceil());
        }
    }
}

/// The value of `RateLimit`: the remaining units of each policy, and the time until its reset.
pub(super) fn limits<P: Borrow<Arc<Policy>>>(decision: &Decision<P>) -> HeaderValue {
    List::value(|list| add_limits(decision, list))
}

fn add_limits<P: Borrow<Arc<Policy>>>(decision: &Decision<P>, list: &mut List<'_>) {
    for Report { policy, verdict, .. } in decision.told() {
        let wait_s = wait_secs(verdict.retry).filter(|_| verdict.remaining == 0);
        list.add(&policy.borrow().name);
        list.describe(b'r', verdict.remaining);
        list.describe(b't', wait_s.unwrap_or_else(|| verdict.reset_after.as_secs_ceil()));
    }
}

thread_local! {
    /// Where lists are written before their length is known, so that only the value of the
    /// field is allocated.
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A list of structured fields (RFC 9651, section 3.1): strings with numbers as parameters.
/// It is formatted without `write!`: every response has two lists, and formatting them took
/// a tenth of the instructions of a request.
struct List<'b>(&'b mut Vec<u8>);

impl List<'_> {
    /// The value of a field with the list that `add` writes.
    fn value(add: impl FnOnce(&mut List<'_>)) -> HeaderValue {
        WRITTEN.with_borrow_mut(|bytes| {
            bytes.clear();
            add(&mut List(bytes));
            HeaderValue::from_bytes(bytes).expect("only printable ASCII")
        })
    }

    /// Appends a string (section 3.3.3). It can contain only printable ASCII. Other bytes
    /// are written as a percent sign and two digits.
    fn add(&mut self, text: &str) {
        let Self(list) = self;
        list.extend_from_slice(if list.is_empty() { b"\"" } else { b", \"" });
        // Most names need no escapes, and are appended at once.
        if scan::all(text.as_bytes(), is_plain) {
            list.extend_from_slice(text.as_bytes());
        } else {
            text.bytes().for_each(|byte| match byte {
                b'"' | b'\\' => list.extend([b'\\', byte]),
                b' '..=b'~' => list.push(byte),
                _ => write!(list, "%{byte:02X}").expect("writing to memory does not fail"),
            });
        }
        list.push(b'"');
    }

    /// Adds a parameter to the last string.
    fn describe(&mut self, name: u8, number: u64) {
        self.0.extend_from_slice(&[b';', name, b'=']);
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Whether a string of structured fields contains the byte as it is.
const fn is_plain(byte: u8) -> bool {
    (byte.is_ascii_graphic() | (byte == b' ')) & (byte != b'"') & (byte != b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::testing::cases;

    proptest! {
        #![proptest_config(cases())]

        /// Checks the grammar of RFC 9651: printable ASCII, in which only a quote or a
        /// backslash is escaped, and each backslash escapes one of them.
        #[test]
        fn any_name_becomes_a_valid_string(name in any::<String>()) {
            let written = List::value(|list| list.add(&name));
            let written = written.to_str().expect("ASCII");
            let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
            let mut bytes = inner.bytes();
            while let Some(byte) = bytes.next() {
                match byte {
                    b'\\' => prop_assert!(matches!(bytes.next(), Some(b'"' | b'\\'))),
                    _ => prop_assert!(byte != b'"' && (b' '..=b'~').contains(&byte)),
                }
            }
        }
    }
}
