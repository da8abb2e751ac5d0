//! `limit` and `algorithm` of a policy: how much it admits, and how it counts.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, MAX_BUCKETS, MAX_LIMIT, QuotaError,
    SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use tollgate_core::time::Span;

use super::context::Context;
use crate::config::field::{Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{Limit, Percent, Period};

/// A request that is held keeps its connection, and clients do not wait for ever.
const MAX_DELAY: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(300);

/// How requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "algorithm", rename_all = "snake_case")]
pub(super) enum RawAlgorithm {
    /// Two counters: one for this window, and the weighted rest of the window before.
    SlidingWindow,
    /// A log of every request in the last window.
    SlidingLog,
    /// One counter, which starts again at the beginning of each window.
    FixedWindow,
    /// A bucket that refills at a steady rate.
    TokenBucket,
    /// A queue that forwards requests at even intervals.
    LeakyBucket,
    /// The number of requests that are in progress at the same time.
    Concurrency,
}

impl RawAlgorithm {
    /// The algorithm that the field names, or the default. None if the field is broken.
    pub(super) fn of(field: &Field<Self>) -> Option<Self> {
        match field {
            Field::Absent => Some(Self::SlidingWindow),
            Field::Broken => None,
            Field::Given(given) => Some(given.value),
        }
    }

    /// The name of an algorithm of which no units can be leased or counted later.
    pub(super) fn always_exact(self) -> Option<&'static str> {
        match self {
            Self::SlidingLog => Some("sliding_log"),
            Self::LeakyBucket => Some("leaky_bucket"),
            Self::Concurrency => Some("concurrency"),
            Self::SlidingWindow | Self::FixedWindow | Self::TokenBucket => None,
        }
    }
}

/// The fields of a policy that say how it counts.
pub(super) struct Counting<'a> {
    pub(super) algorithm: &'a Field<RawAlgorithm>,
    /// The limit that decides the window: that of the policy, or of its first plan.
    pub(super) limit: Option<Spanned<Limit>>,
    pub(super) buckets: &'a Field<u64>,
    pub(super) burst: &'a Field<u64>,
    pub(super) max_delay: &'a Field<Period>,
    pub(super) calendar: &'a Field<String>,
}

/// The details of an algorithm that are given and within their ranges.
struct Details<'a> {
    buckets: Option<u32>,
    burst: Option<u64>,
    max_delay: Option<Span>,
    zone: Option<&'a str>,
}

impl Counting<'_> {
    /// How the policy counts. None if that is broken.
    pub(super) fn compile(&self, cx: &Context<'_>) -> Option<Algorithm> {
        let kind = RawAlgorithm::of(self.algorithm)?;
        self.check_fields_of(kind, cx);
        let details = self.details(kind, cx);
        let limit = self.limit.as_ref()?;
        let Some(made) = made(kind, limit.value, &details) else {
            wrong_form(kind, limit.span, cx);
            return None;
        };
        made.map_err(|error| {
            let span = self.span_of(error).unwrap_or(limit.span);
            cx.error(span, &error.to_string(), "");
        })
        .ok()
    }

    fn details(&self, kind: RawAlgorithm, cx: &Context<'_>) -> Details<'_> {
        if kind == RawAlgorithm::LeakyBucket {
            let span = self.algorithm.span().unwrap_or(TextSpan::FILE);
            let advice = "like max_delay: 2s, the longest that a request is held";
            cx.required(self.max_delay, span, "a leaky_bucket needs \"max_delay\"", advice);
        }
        Details {
            buckets: cx.number(self.buckets, "buckets", 1..=MAX_BUCKETS.into()),
            burst: cx.number(self.burst, "burst", 1..=MAX_LIMIT),
            max_delay: cx.duration(self.max_delay, "max_delay", MAX_DELAY),
            zone: self.calendar.value().map(String::as_str),
        }
    }

    /// Reports the fields of other algorithms, which would have no effect.
    fn check_fields_of(&self, kind: RawAlgorithm, cx: &Context<'_>) {
        use RawAlgorithm::{FixedWindow, LeakyBucket, SlidingWindow, TokenBucket};
        let buckets = "token_bucket or leaky_bucket";
        let fields: [(&str, Option<TextSpan>, &[RawAlgorithm], &str); 4] = [
            ("buckets", self.buckets.span(), &[SlidingWindow], "sliding_window"),
            ("burst", self.burst.span(), &[TokenBucket, LeakyBucket], buckets),
            ("max_delay", self.max_delay.span(), &[LeakyBucket], "leaky_bucket"),
            ("calendar", self.calendar.span(), &[FixedWindow], "fixed_window"),
        ];
        for (field, span, kinds, owner) in fields {
            if let Some(span) = span.filter(|_| !kinds.contains(&kind)) {
                let message = format!("\"{field}\" belongs to the algorithm {owner}");
                let advice = format!("leave it out, or choose {owner}");
                cx.error(span, &message, &advice);
            }
        }
    }

    /// Where the field is written that an error is about, if that is not the limit.
    fn span_of(&self, error: QuotaError) -> Option<TextSpan> {
        match error {
            QuotaError::Zero
            | QuotaError::Limit
            | QuotaError::Window
            | QuotaError::LogLimit
            | QuotaError::CalendarWindow
            | QuotaError::Timeless
            | QuotaError::Ban => None,
            QuotaError::Burst | QuotaError::BurstInWindow => self.burst.span(),
            QuotaError::Buckets | QuotaError::SubWindowsLimit => self.buckets.span(),
            QuotaError::Delay => self.max_delay.span(),
            QuotaError::Zone => self.calendar.span(),
        }
    }
}

fn wrong_form(kind: RawAlgorithm, limit: TextSpan, cx: &Context<'_>) {
    let (message, advice) = match kind {
        RawAlgorithm::Concurrency => {
            ("concurrency is limited by a count without a time", "leave out the time, like 20")
        }
        _ => (
            "the limit has no time",
            "write a count per time, like 100/minute, or choose the algorithm concurrency",
        ),
    };
    cx.error(limit, message, advice);
}

/// None if the limit has a time that the algorithm does not use, or lacks one that it needs.
fn made(
    kind: RawAlgorithm,
    limit: Limit,
    details: &Details<'_>,
) -> Option<Result<Algorithm, QuotaError>> {
    use RawAlgorithm as Kind;
    let &Details { buckets, burst, max_delay, zone } = details;
    Some(match (kind, limit) {
        (Kind::Concurrency, Limit::Count(units)) => {
            Concurrency::new(units).map(Algorithm::Concurrency)
        }
        (Kind::Concurrency, Limit::Rate(_)) | (_, Limit::Count(_)) => return None,
        (Kind::SlidingWindow, Limit::Rate(quota)) => match buckets {
            None | Some(1) => Ok(Algorithm::SlidingWindow(SlidingWindow::new(quota))),
            Some(buckets) => SubWindows::new(quota, buckets).map(Algorithm::SubWindows),
        },
        (Kind::SlidingLog, Limit::Rate(quota)) => SlidingLog::new(quota).map(Algorithm::SlidingLog),
        (Kind::FixedWindow, Limit::Rate(quota)) => match zone {
            None => Ok(Algorithm::FixedWindow(FixedWindow::new(quota))),
            Some(zone) => FixedWindow::calendar(quota, zone).map(Algorithm::FixedWindow),
        },
        (Kind::TokenBucket, Limit::Rate(quota)) => {
            TokenBucket::new(quota, burst.unwrap_or(quota.limit())).map(Algorithm::TokenBucket)
        }
        (Kind::LeakyBucket, Limit::Rate(quota)) => {
            LeakyBucket::new(quota, max_delay.unwrap_or(Span::ZERO), burst)
                .map(Algorithm::LeakyBucket)
        }
    })
}

/// The units of another limit that uses the counters of `own`. `whose` names that limit in
/// messages, and `others` names the limit of `own`.
pub(super) fn same_window(
    limit: Limit,
    span: TextSpan,
    own: &Algorithm,
    [whose, others]: [&str; 2],
    cx: &Context<'_>,
) -> Option<u64> {
    if limit.window() == own.window() {
        return Some(limit.units());
    }
    let message = format!("{whose} counts in another window than {others}");
    let advice = if own.window().is_zero() {
        "they share their counters: leave out the time, like 20"
    } else {
        "they share their counters: write the same time after the count"
    };
    cx.error(span, &message, advice);
    None
}

/// The algorithm, or none with an error at `span`.
pub(super) fn valid(
    made: Result<Algorithm, QuotaError>,
    span: TextSpan,
    cx: &Context<'_>,
) -> Option<Algorithm> {
    made.map_err(|error| cx.error(span, &error.to_string(), "")).ok()
}

/// `own` with the units that `soft` admits beyond it, if there are any.
pub(super) fn soft(raw: &Field<Percent>, own: &Algorithm, cx: &Context<'_>) -> Option<Algorithm> {
    let Spanned { value: Percent(percent @ 1..), span, .. } = raw.given()? else { return None };
    let beyond = own.capacity() * u64::from(*percent) / 100;
    if beyond == 0 {
        let message = "this share of the limit is less than one unit, and admits nothing";
        cx.warning(*span, message, "write a higher percentage, or leave it out");
        return None;
    }
    valid(own.with_capacity(own.capacity() + beyond), *span, cx)
}
