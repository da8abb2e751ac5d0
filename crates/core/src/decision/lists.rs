//! The lists of `RateLimit-Policy` and of `RateLimit`, as structured fields (RFC 9651).

use std::borrow::Borrow;
use std::cell::RefCell;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;

use super::{Decision, Report};
use crate::algorithm::Retry;
use crate::policy::{Policy, Unit};
use crate::request::scan;
use crate::time::Span;

/// Whole seconds to wait, at least one. None if waiting does not help or is not needed.
pub(super) fn wait_secs(retry: Retry) -> Option<u64> {
    match retry {
        Retry::After(wait) => Some(wait.as_secs_ceil().max(1)),
        Retry::Now | Retry::Never => None,
    }
}

/// The lists of one response.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// The value of `RateLimit-Policy`: the quota of each policy.
    pub(super) policies: HeaderValue,
    /// The value of `RateLimit`: the remaining units of each policy, and the time until its
    /// reset. Printable ASCII.
    pub(super) limits: Bytes,
}

/// The sets of quotas that a thread remembers.
const REMEMBERED: usize = 16;

thread_local! {
    /// The quotas of the last responses. Most requests of a thread have the same ones, and they
    /// are not formatted again for them.
    static QUOTAS: RefCell<[Option<Quotas>; REMEMBERED]> =
        const { RefCell::new([const { None }; REMEMBERED]) };
    /// Where lists are written before their length is known, so that only the value of the
    /// field is allocated.
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Lists {
    /// What a response tells about `decision`.
    pub(super) fn of<P: Borrow<Arc<Policy>>>(decision: &Decision<P>) -> Self {
        let sum = decision.told().fold(0_u64, |sum, report| {
            sum.rotate_left(5) ^ report.policy.borrow().counter.bits() ^ report.verdict.limit
        });
        // Two sets with the same place replace each other. That costs only the formatting.
        let place = usize::try_from(sum % REMEMBERED as u64).expect("it is small");
        QUOTAS.with_borrow_mut(|remembered| {
            let known = remembered[place].take().filter(|quotas| quotas.are_of(decision));
            let quotas = remembered[place].insert(known.unwrap_or_else(|| Quotas::of(decision)));
            Self { policies: quotas.value.clone(), limits: quotas.limits(decision) }
        })
    }
}

/// The value of `RateLimit-Policy` for some policies.
struct Quotas {
    items: Box<[Quota]>,
    value: HeaderValue,
}

/// The quota of one policy.
struct Quota {
    name: Arc<str>,
    limit: u64,
    length: Span,
    unit: Unit,
    /// Where the value has the name in quotes.
    quoted: Range<usize>,
}

impl Quotas {
    fn of<P: Borrow<Arc<Policy>>>(decision: &Decision<P>) -> Self {
        let mut items = Vec::with_capacity(decision.reports.len());
        let add =
            |list: &mut List<'_>| items.extend(decision.told().map(|it| Quota::add(it, list)));
        let value = HeaderValue::from_maybe_shared(List::written(add));
        Self { value: value.expect("only printable ASCII"), items: items.into() }
    }

    fn are_of<P: Borrow<Arc<Policy>>>(&self, decision: &Decision<P>) -> bool {
        let mut items = self.items.iter();
        decision.told().all(|report| items.next().is_some_and(|item| item.is_of(report)))
            && items.next().is_none()
    }

    /// The value of `RateLimit` for the same policies.
    fn limits<P: Borrow<Arc<Policy>>>(&self, decision: &Decision<P>) -> Bytes {
        List::written(|list| {
            for (Report { verdict, .. }, item) in decision.told().zip(&self.items) {
                let wait_s = wait_secs(verdict.retry).filter(|_| verdict.remaining == 0);
                list.separate();
                list.0.extend_from_slice(&self.value.as_bytes()[item.quoted.clone()]);
                list.describe(b'r', verdict.remaining);
                list.describe(b't', wait_s.unwrap_or_else(|| verdict.reset_after.as_secs_ceil()));
            }
        })
    }
}

impl Quota {
    /// Adds the quota of a policy to a list.
    fn add<P: Borrow<Arc<Policy>>>(report: &Report<P>, list: &mut List<'_>) -> Self {
        let Report { verdict, length, .. } = report;
        let policy = report.policy.borrow();
        let name = Arc::clone(&policy.name);
        let limit = verdict.limit;
        let unit = policy.unit();
        let quoted = list.add(&name);
        list.describe(b'q', limit);
        match unit {
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
        Self { name, limit, length: *length, unit, quoted }
    }

    fn is_of<P: Borrow<Arc<Policy>>>(&self, report: &Report<P>) -> bool {
        let policy = report.policy.borrow();
        self.limit == report.verdict.limit
            && self.length == report.length
            && self.unit == policy.unit()
            && (Arc::ptr_eq(&self.name, &policy.name) || self.name == policy.name)
    }
}

/// A list of structured fields (RFC 9651, section 3.1): strings with numbers as parameters.
/// It is formatted without `write!`: every response has two lists, and formatting them took
/// a tenth of the instructions of a request.
struct List<'b>(&'b mut Vec<u8>);

impl List<'_> {
    /// The list that `add` writes.
    fn written(add: impl FnOnce(&mut List<'_>)) -> Bytes {
        WRITTEN.with_borrow_mut(|bytes| {
            bytes.clear();
            add(&mut List(bytes));
            Bytes::copy_from_slice(bytes)
        })
    }

    /// Begins another item.
    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.0.extend_from_slice(b", ");
        }
    }

    /// Appends a string (section 3.3.3), and returns where it is. It can contain only printable
    /// ASCII. Other bytes are written as a percent sign and two digits.
    fn add(&mut self, text: &str) -> Range<usize> {
        self.separate();
        let Self(list) = self;
        let start = list.len();
        list.push(b'"');
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
        start..list.len()
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
    use crate::algorithm::Verdict;
    use crate::algorithm::testing::cases;
    use crate::decision::tests::{report, shared};
    use crate::decision::{Lacking, Lease};

    proptest! {
        #![proptest_config(cases())]

        /// Checks the grammar of RFC 9651: printable ASCII, in which only a quote or a
        /// backslash is escaped, and each backslash escapes one of them.
        #[test]
        fn any_name_becomes_a_valid_string(name in any::<String>()) {
            let written = List::written(|list| {
                list.add(&name);
            });
            let written = std::str::from_utf8(&written).expect("ASCII");
            let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
            let mut bytes = inner.bytes();
            while let Some(byte) = bytes.next() {
                match byte {
                    b'\\' => prop_assert!(matches!(bytes.next(), Some(b'"' | b'\\'))),
                    _ => prop_assert!(byte != b'"' && (b' '..=b'~').contains(&byte)),
                }
            }
        }

        /// The quotas of other requests are remembered, and never told.
        #[test]
        fn a_response_tells_its_own_policies(
            requests in prop::collection::vec(
                prop::collection::vec((0..4_usize, 1..4_u64, 0..3_u64), 0..4),
                1..60,
            ),
        ) {
            let policies = ["a", "b", "c \"", "d"].map(|name| shared(name, 100, Span::SECOND));
            for request in requests {
                let reports = request.iter().map(|&(policy, limit, remaining)| {
                    let retry = Retry::Now;
                    let delay = Span::ZERO;
                    let reset_after = Span::SECOND;
                    let verdict =
                        Verdict { admitted: true, limit, remaining, retry, reset_after, delay };
                    report(&policies[policy], verdict, 1)
                });
                let decision = Decision::combine(reports.collect(), Lacking::new(), Lease::default());
                let told = Lists::of(&decision);
                let alone = Quotas::of(&decision);
                prop_assert_eq!(&told.policies, &alone.value);
                prop_assert_eq!(&told.limits, &alone.limits(&decision));
                let limits = request.iter().map(|&(policy, _, remaining)| {
                    let name = ["a", "b", "c \\\"", "d"][policy];
                    format!("\"{name}\";r={remaining};t=1")
                });
                let limits = limits.collect::<Vec<_>>().join(", ");
                prop_assert_eq!(std::str::from_utf8(&told.limits).expect("ASCII"), limits);
            }
        }
    }
}
