//! The header fields that inform a client about its limits.
//!
//! All numbers are integers, none is negative, and no wait is too short: a client that
//! obeys `Retry-After` is admitted if no other request consumes meanwhile. The fields
//! contain names and numbers of policies, and never a key.
//!
//! The fields of the backend are merged, and never loosened. Its items of the `ietf` lists
//! stay, and those of the gateway follow. Its `X-Ratelimit-*` fields stay if they leave the
//! client less than those of the gateway. Otherwise the gateway replaces them.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::cell::RefCell;
use std::io::Write as _;
use std::sync::Arc;

use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Decision, Dialect, HeaderSettings, Outcome, Report};
use crate::algorithm::{Retry, Verdict};
use crate::policy::Policy;
use crate::request::scan;
use crate::store::Source;
use crate::time::Span;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Marks the response, and the request to the upstream, of a request that was admitted
/// beyond its limit. Its value is `over`.
pub const X_RATELIMIT_SOFT: HeaderName = HeaderName::from_static("x-ratelimit-soft");
/// The value of the field.
const OVER: HeaderValue = HeaderValue::from_static("over");

/// Marks a response for which this node alone has counted, because the store that the nodes
/// share is unavailable. Its value is `local`.
const X_RATELIMIT_SOURCE: HeaderName = HeaderName::from_static("x-ratelimit-source");
/// The value of the field.
const LOCAL: HeaderValue = HeaderValue::from_static("local");

/// Writes decisions into header fields.
#[derive(Clone, Debug)]
pub struct HeaderWriter {
    dialects: Vec<Dialect>,
    /// The names of the fields of all dialects, if scripts of other origins may read them.
    exposed: Option<HeaderValue>,
}

impl HeaderWriter {
    /// Writes the fields that the settings select.
    pub fn new(settings: &HeaderSettings) -> Self {
        let dialects = settings.dialects.clone();
        let expose = settings.expose_cors && !dialects.is_empty();
        let names = dialects.iter().map(|&dialect| names(dialect)).collect::<Vec<_>>().join(", ");
        let exposed = expose.then(|| HeaderValue::try_from(names).expect("names of fields"));
        Self { dialects, exposed }
    }

    /// Adds a decision's fields to those of a response. `cross_origin`: the request has an
    /// `Origin`. Without a report, nothing is added.
    pub fn write<P: Borrow<Arc<Policy>>>(
        &self,
        decision: &Decision<P>,
        cross_origin: bool,
        fields: &mut HeaderMap,
    ) {
        self.fields(decision, cross_origin).write(fields);
    }

    /// The fields of a decision, for a response that does not exist yet. `cross_origin`: the
    /// request has an `Origin`. Without a report there are none.
    pub fn fields<P: Borrow<Arc<Policy>>>(
        &self,
        decision: &Decision<P>,
        cross_origin: bool,
    ) -> LimitFields {
        let mut fields = LimitFields::default();
        if let Outcome::Unavailable(wait) | Outcome::Unverifiable(_, wait) = decision.outcome
            && self.dialects.contains(&Dialect::RetryAfter)
        {
            fields.retry_after_s = Some(wait.as_secs_ceil());
        }
        let Some(binding) = decision.binding() else { return fields };
        let retry_after_s = match decision.outcome {
            Outcome::Refuse(retry) => wait_secs(retry),
            Outcome::Admit
            | Outcome::Unavailable(_)
            | Outcome::Unverifiable(..)
            | Outcome::Deny(_)
            | Outcome::Ambiguous(_)
            | Outcome::Unauthorized(..) => None,
        };
        for dialect in &self.dialects {
            match dialect {
                Dialect::XRatelimit => {
                    fields.numbers = Some(Numbers::of(&binding.verdict, retry_after_s));
                }
                Dialect::Ietf => {
                    let limits = List::value(|list| add_limits(decision, list));
                    fields.lists = Some([quotas(decision), varying(limits)]);
                }
                Dialect::RetryAfter => {
                    fields.retry_after_s = fields.retry_after_s.or(retry_after_s);
                }
            }
        }
        fields.exposed = self.exposed.clone().filter(|_| cross_origin);
        fields.is_soft = decision.is_soft();
        fields.is_local = decision.told().any(|report| report.source == Source::Local);
        fields
    }
}

/// The fields about limits of one decision.
#[derive(Clone, Debug, Default)]
pub struct LimitFields {
    /// Those that begin with `X-Ratelimit-`.
    numbers: Option<Numbers>,
    /// The lists of `RateLimit-Policy` and of `RateLimit`.
    lists: Option<[HeaderValue; 2]>,
    retry_after_s: Option<u64>,
    /// The names of the fields, if a script of another origin may read them.
    exposed: Option<HeaderValue>,
    is_soft: bool,
    is_local: bool,
}

impl LimitFields {
    /// Adds the fields to those of a response.
    pub fn write(self, fields: &mut HeaderMap) {
        if let Some(numbers) = self.numbers {
            numbers.write(fields);
        }
        if let Some([policies, limits]) = self.lists {
            fields.append(RATELIMIT_POLICY, policies);
            fields.append(RATELIMIT, limits);
        }
        if let Some(secs) = self.retry_after_s {
            fields.insert(RETRY_AFTER, digits(secs));
        }
        let is_exposed = self.exposed.is_some();
        if let Some(exposed) = self.exposed {
            fields.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        let mut mark = |name: HeaderName, value| {
            fields.insert(name.clone(), value);
            if is_exposed {
                fields.append(ACCESS_CONTROL_EXPOSE_HEADERS, name.into());
            }
        };
        if self.is_soft {
            mark(X_RATELIMIT_SOFT, OVER);
        }
        if self.is_local {
            mark(X_RATELIMIT_SOURCE, LOCAL);
        }
    }
}

/// The numbers of the fields that begin with `X-Ratelimit-`.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    limit: u64,
    remaining: u64,
    reset_s: u64,
    retry_after_s: Option<u64>,
}

impl Numbers {
    fn of(verdict: &Verdict, retry_after_s: Option<u64>) -> Self {
        let Verdict { limit, remaining, .. } = *verdict;
        Self { limit, remaining, reset_s: verdict.reset_after.as_secs_ceil(), retry_after_s }
    }

    fn write(self, fields: &mut HeaderMap) {
        let number = |value: &HeaderValue| value.to_str().ok()?.parse::<u64>().ok();
        let backend = fields.get(&REMAINING).and_then(number);
        if backend.is_none_or(|remaining| remaining >= self.remaining) {
            fields.insert(LIMIT, limit(self.limit));
            fields.insert(REMAINING, varying(digits(self.remaining)));
            fields.insert(RESET, digits(self.reset_s));
        }
        if let Some(secs) = self.retry_after_s {
            fields.insert(X_RETRY_AFTER, digits(secs));
        }
    }
}

/// A number as the value of a field. Unlike `HeaderValue::from` it allocates only once.
fn digits(number: u64) -> HeaderValue {
    let mut text = itoa::Buffer::new();
    HeaderValue::from_str(text.format(number)).expect("digits are visible ASCII")
}

/// Marks a value that nearly every response has anew, so that HTTP/2 does not enter it into the
/// table of fields (RFC 7541, section 6.2.3). There it would replace values that come again, and
/// each search for the field would compare all its earlier values. The `Debug` of such a value is
/// `Sensitive`.
pub fn varying(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

const fn names(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::XRatelimit => {
            "X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset, X-Ratelimit-Retry-After"
        }
        Dialect::Ietf => "RateLimit-Policy, RateLimit",
        Dialect::RetryAfter => "Retry-After",
    }
}

/// Whole seconds to wait, at least one. None if waiting does not help or is not needed.
fn wait_secs(retry: Retry) -> Option<u64> {
    match retry {
        Retry::After(wait) => Some(wait.as_secs_ceil().max(1)),
        Retry::Now | Retry::Never => None,
    }
}

thread_local! {
    /// The last value of `X-Ratelimit-Limit`. Most requests of a thread have the same one, and it
    /// is not formatted again for them.
    static LAST_LIMIT: RefCell<(u64, HeaderValue)> =
        const { RefCell::new((0, HeaderValue::from_static("0"))) };
    /// The last value of `RateLimit-Policy` for one policy, likewise.
    static LAST_QUOTA: RefCell<Option<Quota>> = const { RefCell::new(None) };
}

/// The value of `X-Ratelimit-Limit`.
fn limit(limit: u64) -> HeaderValue {
    LAST_LIMIT.with_borrow_mut(|(last, value)| {
        if *last != limit {
            (*last, *value) = (limit, digits(limit));
        }
        value.clone()
    })
}

/// The value of `RateLimit-Policy` for one policy.
struct Quota {
    name: Box<str>,
    limit: u64,
    window: Span,
    value: HeaderValue,
}

/// The value of `RateLimit-Policy`.
fn quotas<P: Borrow<Arc<Policy>>>(decision: &Decision<P>) -> HeaderValue {
    let write = || List::value(|list| add_policies(decision, list));
    let mut told = decision.told();
    let (Some(Report { policy, verdict, window, .. }), None) = (told.next(), told.next()) else {
        return write();
    };
    let (name, limit) = (&*policy.borrow().name, verdict.limit);
    LAST_QUOTA.with_borrow_mut(|last| match last {
        Some(it) if it.limit == limit && it.window == *window && *it.name == *name => {
            it.value.clone()
        }
        _ => {
            let value = write();
            let (name, window, kept) = (name.into(), *window, value.clone());
            *last = Some(Quota { name, limit, window, value: kept });
            value
        }
    })
}

/// The list of `RateLimit-Policy`: the quota of each policy.
fn add_policies<P: Borrow<Arc<Policy>>>(decision: &Decision<P>, list: &mut List<'_>) {
    for Report { policy, verdict, window, .. } in decision.told() {
        list.add(&policy.borrow().name);
        list.describe(b'q', verdict.limit);
        // The field contains whole seconds only. Rounding a window up states a lower rate.
        // Below one second the stated rate would be far too low.
        if *window >= Span::SECOND {
            list.describe(b'w', window.as_secs_ceil());
        }
    }
}

/// The list of `RateLimit`: the remaining units of each policy, and the time until its
/// reset.
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
