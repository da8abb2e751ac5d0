//! The fields about limits as well-known APIs have them, which their client libraries read.
//!
//! OpenAI and Anthropic tell requests and tokens apart. The fields of requests show the policy of
//! which each request costs one unit, and those of tokens the policy whose units are the tokens
//! that answers state. Of several, the one with the least rest is shown. Of fields of the upstream
//! and of the gateway, those with the smaller rest stay.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;

use http::header::ACCESS_CONTROL_EXPOSE_HEADERS;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Decision, Report};
use crate::algorithm::Algorithm;
use crate::meter::{MeterSpec, Tariff, Weights};
use crate::policy::{Cost, Policy};
use crate::time::{Span, Timestamp};

/// The API whose fields are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldApi {
    /// `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`. The reset is a duration: `6m0s`.
    OpenAi,
    /// `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`.
    /// The reset is a time (RFC 3339).
    Anthropic,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Requests,
    Tokens,
    InputTokens,
    OutputTokens,
}

const KINDS: [Kind; 4] = [Kind::Requests, Kind::Tokens, Kind::InputTokens, Kind::OutputTokens];

/// The fields of one decision.
#[derive(Clone, Debug)]
pub struct ApiFields {
    api: FieldApi,
    /// What is shown of each kind, in the order of [`KINDS`].
    shown: [Option<Rest>; KINDS.len()],
    /// The time of the decision, for people.
    wall: Timestamp,
}

/// What is left of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    limit: u64,
    remaining: u64,
    /// Until the whole limit is free again.
    reset: Span,
}

impl ApiFields {
    /// The fields of a decision that is made at `wall`, the wall clock's time. None: no policy is
    /// shown.
    pub fn of<P: Borrow<Arc<Policy>>>(
        api: FieldApi,
        decision: &Decision<P>,
        wall: Timestamp,
    ) -> Option<Self> {
        let shown = KINDS.map(|kind| {
            let reports =
                decision.told().filter(|it| kind_of(api, it.policy.borrow()) == Some(kind));
            let tightest =
                reports.min_by_key(|it| (it.verdict.remaining, Reverse(it.precedence())));
            tightest.map(Rest::of)
        });
        shown.iter().any(Option::is_some).then_some(Self { api, shown, wall })
    }

    /// Adds the fields to those of a response. Scripts of other origins may read them if
    /// `is_exposed`.
    pub(super) fn write(self, is_exposed: bool, fields: &mut HeaderMap) {
        for (kind, rest) in KINDS.into_iter().zip(self.shown) {
            let (Some(rest), Some(names)) = (rest, names(self.api, kind)) else { continue };
            let number = |value: &HeaderValue| value.to_str().ok()?.trim().parse::<u64>().ok();
            let upstream = fields.get(&names[1]).and_then(number);
            if upstream.is_some_and(|remaining| remaining < rest.remaining) {
                continue;
            }
            let reset = match self.api {
                FieldApi::OpenAi => duration(rest.reset),
                FieldApi::Anthropic => time(self.wall, rest.reset),
            };
            let values = [rest.limit.to_string(), rest.remaining.to_string(), reset];
            for (name, value) in names.into_iter().zip(values) {
                let value = HeaderValue::try_from(value).expect("digits, and letters of a time");
                if is_exposed {
                    fields.append(ACCESS_CONTROL_EXPOSE_HEADERS, name.clone().into());
                }
                fields.insert(name, value);
            }
        }
    }
}

impl Rest {
    fn of<P: Borrow<Arc<Policy>>>(report: &Report<P>) -> Self {
        let verdict = &report.verdict;
        Self { limit: verdict.limit, remaining: verdict.remaining, reset: verdict.reset_after }
    }
}

/// What the policy counts, if the fields of the API can tell it.
fn kind_of(api: FieldApi, policy: &Policy) -> Option<Kind> {
    match &policy.cost {
        // Its units are free again when requests end, and not at a time.
        _ if matches!(policy.algorithm, Algorithm::Concurrency(_)) => None,
        Cost::Fixed(1) => Some(Kind::Requests),
        Cost::Metered { meter: MeterSpec::Usage { tariff, .. }, .. } => match (api, tariff) {
            // Libraries read tokens, and not money.
            (_, Tariff::Prices(_)) => None,
            (FieldApi::OpenAi, Tariff::Weights(_)) => Some(Kind::Tokens),
            (FieldApi::Anthropic, Tariff::Weights(weights)) => Some(tokens(weights)),
        },
        _ => None,
    }
}

/// The kind of the tokens that count.
const fn tokens(weights: &Weights) -> Kind {
    let Weights { input, cache_read, cache_write, output } = *weights;
    match (input | cache_read | cache_write, output) {
        (0, 1..) => Kind::OutputTokens,
        (1.., 0) => Kind::InputTokens,
        _ => Kind::Tokens,
    }
}

/// The names of the limit, the rest and the reset.
fn names(api: FieldApi, kind: Kind) -> Option<[HeaderName; 3]> {
    let names = match (api, kind) {
        (FieldApi::OpenAi, Kind::Requests) => [
            "x-ratelimit-limit-requests",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-reset-requests",
        ],
        (FieldApi::OpenAi, Kind::Tokens) => {
            ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"]
        }
        (FieldApi::OpenAi, Kind::InputTokens | Kind::OutputTokens) => return None,
        (FieldApi::Anthropic, Kind::Requests) => [
            "anthropic-ratelimit-requests-limit",
            "anthropic-ratelimit-requests-remaining",
            "anthropic-ratelimit-requests-reset",
        ],
        (FieldApi::Anthropic, Kind::Tokens) => [
            "anthropic-ratelimit-tokens-limit",
            "anthropic-ratelimit-tokens-remaining",
            "anthropic-ratelimit-tokens-reset",
        ],
        (FieldApi::Anthropic, Kind::InputTokens) => [
            "anthropic-ratelimit-input-tokens-limit",
            "anthropic-ratelimit-input-tokens-remaining",
            "anthropic-ratelimit-input-tokens-reset",
        ],
        (FieldApi::Anthropic, Kind::OutputTokens) => [
            "anthropic-ratelimit-output-tokens-limit",
            "anthropic-ratelimit-output-tokens-remaining",
            "anthropic-ratelimit-output-tokens-reset",
        ],
    };
    Some(names.map(HeaderName::from_static))
}

/// Whole seconds as hours, minutes and seconds: `6m0s`.
fn duration(span: Span) -> String {
    let seconds = span.as_secs_ceil();
    let mut text = String::new();
    // A text can be written to.
    if seconds >= 3600 {
        _ = write!(text, "{}h", seconds / 3600);
    }
    if seconds >= 60 {
        _ = write!(text, "{}m", seconds / 60 % 60);
    }
    _ = write!(text, "{}s", seconds % 60);
    text
}

/// The time after a duration, in whole seconds.
fn time(wall: Timestamp, span: Span) -> String {
    let end = wall.plus(span).as_micros().div_ceil(1_000_000).saturating_mul(1_000_000);
    let text = Timestamp::from_micros(end).to_string();
    // The milliseconds are 0.
    text.replace(".000Z", "Z")
}

#[cfg(test)]
mod tests;
