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
use std::sync::Arc;

use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::api_fields::ApiFields;
use super::lists::{self, Lists};
use super::{Decision, Dialect, HeaderSettings, Outcome};
use crate::algorithm::Verdict;
use crate::policy::Policy;
use crate::store::Source;

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

/// The share of a limit, in percent, that the request has passed, if its policy warns of it.
const X_RATELIMIT_WARN: HeaderName = HeaderName::from_static("x-ratelimit-warn");

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
    exposes: bool,
}

impl HeaderWriter {
    /// Writes the fields that the settings select.
    pub fn new(settings: &HeaderSettings) -> Self {
        let dialects = settings.dialects.clone();
        let expose = settings.expose_cors && !dialects.is_empty();
        let names = dialects.iter().map(|&dialect| names(dialect)).collect::<Vec<_>>().join(", ");
        let exposed = expose.then(|| HeaderValue::try_from(names).expect("names of fields"));
        Self { dialects, exposed, exposes: settings.expose_cors }
    }

    /// Whether scripts of other origins may read fields about limits.
    pub const fn exposes(&self) -> bool {
        self.exposes
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
        if let Outcome::Unavailable(wait) | Outcome::Unverifiable(_, wait) = decision.outcome {
            if self.dialects.contains(&Dialect::RetryAfter) {
                fields.retry_after_s = Some(wait.as_secs_ceil());
                fields.exposed = self.exposed.clone().filter(|_| cross_origin);
            }
        }
        let Some(binding) = decision.binding() else { return fields };
        let retry_after_s = match decision.outcome {
            Outcome::Refuse(retry) => lists::wait_secs(retry),
            Outcome::Admit
            | Outcome::Unavailable(_)
            | Outcome::Unverifiable(..)
            | Outcome::Deny(_)
            | Outcome::Uncountable(..)
            | Outcome::Ambiguous(_)
            | Outcome::Unauthorized(..)
            | Outcome::Denied(_)
            | Outcome::Unauthenticated(_) => None,
        };
        for dialect in &self.dialects {
            match dialect {
                Dialect::XRatelimit => {
                    fields.numbers = Some(Numbers::of(&binding.verdict, retry_after_s));
                }
                Dialect::Ietf => {
                    fields.lists = Some(Lists::of(decision));
                }
                Dialect::RetryAfter => {
                    fields.retry_after_s = fields.retry_after_s.or(retry_after_s);
                }
            }
        }
        fields.exposed = self.exposed.clone().filter(|_| cross_origin);
        fields.warned = decision.warned;
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
    lists: Option<Lists>,
    retry_after_s: Option<u64>,
    /// The names of the fields, if a script of another origin may read them.
    exposed: Option<HeaderValue>,
    warned: Option<u8>,
    is_soft: bool,
    is_local: bool,
    /// Those of an API, if the route has them. Boxed, because few routes do.
    of_api: Option<Box<ApiFields>>,
}

impl LimitFields {
    /// The same fields, and those of an API.
    #[must_use]
    pub fn with_api(self, of_api: Option<ApiFields>) -> Self {
        Self { of_api: of_api.map(Box::new), ..self }
    }

    /// Whether the fields can be written as lines.
    pub const fn are_lines(&self) -> bool {
        self.of_api.is_none()
    }

    /// The same fields, which scripts of other origins may not read.
    #[must_use]
    pub fn unexposed(self) -> Self {
        Self { exposed: None, ..self }
    }

    /// Whether they say that scripts of other origins may read the field with this name.
    pub fn expose(&self, name: &HeaderName) -> bool {
        let names = self.exposed.as_ref().and_then(|it| it.to_str().ok()).unwrap_or_default();
        names.split(", ").any(|exposed| name == exposed)
    }

    /// Adds the fields to those of a response.
    pub fn write(self, fields: &mut HeaderMap) {
        if let Some(numbers) = self.numbers {
            numbers.write(fields);
        }
        if let Some(Lists { policies, limits }) = self.lists {
            let limits = HeaderValue::from_maybe_shared(limits).expect("only printable ASCII");
            fields.append(RATELIMIT_POLICY, policies);
            fields.append(RATELIMIT, varying(limits));
        }
        if let Some(secs) = self.retry_after_s {
            fields.insert(RETRY_AFTER, digits(secs));
        }
        let is_exposed = self.exposed.is_some();
        if let Some(of_api) = self.of_api {
            of_api.write(is_exposed, fields);
        }
        if let Some(exposed) = self.exposed {
            fields.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        let mut mark = |name: HeaderName, value| {
            fields.insert(name.clone(), value);
            if is_exposed {
                fields.append(ACCESS_CONTROL_EXPOSE_HEADERS, name.into());
            }
        };
        if let Some(share) = self.warned {
            mark(X_RATELIMIT_WARN, digits(share.into()));
        }
        if self.is_soft {
            mark(X_RATELIMIT_SOFT, OVER);
        }
        if self.is_local {
            mark(X_RATELIMIT_SOURCE, LOCAL);
        }
    }

    /// Whether a field with this name may be one of those about limits. A response that has one
    /// gets them by [`Self::write`], which merges both.
    pub fn may_have(name: &HeaderName) -> bool {
        let text = name.as_str();
        text.starts_with(X_RATELIMIT_PREFIX) || text.starts_with(IETF_PREFIX) || name == RETRY_AFTER
    }

    /// Appends the fields as lines of the head of a response in HTTP/1.1 (RFC 9112, section 5).
    /// They are those that [`Self::write`] adds to a response that has no field which
    /// [`Self::may_have`] names, if [they are lines](Self::are_lines).
    pub fn write_lines(&self, head: &mut Vec<u8>) {
        if let Some(numbers) = self.numbers {
            numbers.each(|name, number| number_line(&name, number, head));
        }
        if let Some(Lists { policies, limits }) = &self.lists {
            line(&RATELIMIT_POLICY, policies.as_bytes(), head);
            line(&RATELIMIT, limits, head);
        }
        if let Some(secs) = self.retry_after_s {
            number_line(&RETRY_AFTER, secs, head);
        }
        if let Some(exposed) = &self.exposed {
            line(&ACCESS_CONTROL_EXPOSE_HEADERS, exposed.as_bytes(), head);
        }
        let mut mark = |name: HeaderName, value: HeaderValue| {
            line(&name, value.as_bytes(), head);
            if self.exposed.is_some() {
                line(&ACCESS_CONTROL_EXPOSE_HEADERS, name.as_str().as_bytes(), head);
            }
        };
        if let Some(share) = self.warned {
            mark(X_RATELIMIT_WARN, digits(share.into()));
        }
        if self.is_soft {
            mark(X_RATELIMIT_SOFT, OVER);
        }
        if self.is_local {
            mark(X_RATELIMIT_SOURCE, LOCAL);
        }
    }
}

/// What the names of all fields about limits but `Retry-After` begin with.
const X_RATELIMIT_PREFIX: &str = "x-ratelimit-";
const IETF_PREFIX: &str = "ratelimit";

/// Appends a line to a head.
fn line(name: &HeaderName, value: &[u8], head: &mut Vec<u8>) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

fn number_line(name: &HeaderName, number: u64, head: &mut Vec<u8>) {
    line(name, itoa::Buffer::new().format(number).as_bytes(), head);
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
        // Several lines are one list (RFC 9110, section 5.3).
        let lines = fields.get_all(&REMAINING).iter().filter_map(|line| line.to_str().ok());
        let numbers = lines.flat_map(|line| line.split(','));
        let backend = numbers.filter_map(|number| number.trim().parse::<u64>().ok()).min();
        if backend.is_none_or(|remaining| remaining >= self.remaining) {
            fields.insert(LIMIT, limit(self.limit));
            fields.insert(REMAINING, varying(digits(self.remaining)));
            fields.insert(RESET, digits(self.reset_s));
        }
        if let Some(secs) = self.retry_after_s {
            fields.insert(X_RETRY_AFTER, digits(secs));
        }
    }

    /// Each name with its number.
    fn each(self, mut add: impl FnMut(HeaderName, u64)) {
        add(LIMIT, self.limit);
        add(REMAINING, self.remaining);
        add(RESET, self.reset_s);
        if let Some(secs) = self.retry_after_s {
            add(X_RETRY_AFTER, secs);
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

thread_local! {
    /// The last value of `X-Ratelimit-Limit`. Most requests of a thread have the same one, and it
    /// is not formatted again for them.
    static LAST_LIMIT: RefCell<(u64, HeaderValue)> =
        const { RefCell::new((0, HeaderValue::from_static("0"))) };
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
