//! `limit` and `algorithm`: how much, and how it is counted.

use std::ops::RangeInclusive;

use super::Compiler;
use crate::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, MAX_BUCKETS, MAX_LIMIT, QuotaError,
    SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use crate::config::field::{Field, Spanned};
use crate::config::node::Span as Place;
use crate::config::raw::{RawAlgorithm, RawPolicy};
use crate::config::scalar::{Allowance, Limit, Percent};
use crate::time::Span;

/// A request that is held keeps its connection, and clients give up.
const MAX_DELAY: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(300);

/// What refines an algorithm.
struct Details<'a> {
    buckets: Option<u32>,
    burst: Option<u64>,
    max_delay: Option<Span>,
    zone: Option<&'a str>,
}

impl Compiler<'_> {
    /// How the policy counts; none if that is broken.
    pub(super) fn algorithm(&self, raw: &RawPolicy) -> Option<Algorithm> {
        let kind = raw.algorithm_kind()?;
        self.check_fields_of(kind, raw);
        let details = self.details(kind, raw);
        let limit = raw.counted_limit()?;
        let Some(made) = made(kind, limit.value, &details) else {
            self.wrong_form(kind, limit.span);
            return None;
        };
        made.map_err(|error| {
            let place = place_of(error, raw).unwrap_or(limit.span);
            self.problems.error(place, &error.to_string(), "");
        })
        .ok()
    }

    fn wrong_form(&self, kind: RawAlgorithm, limit: Place) {
        let (message, advice) = match kind {
            RawAlgorithm::Concurrency => {
                ("what is in flight is limited by a bare count", "leave out the time, like 20")
            }
            _ => (
                "the limit says no time",
                "write a count per time, like 100/minute, or choose the algorithm concurrency",
            ),
        };
        self.problems.error(limit, message, advice);
    }

    fn details<'r>(&self, kind: RawAlgorithm, raw: &'r RawPolicy) -> Details<'r> {
        if kind == RawAlgorithm::LeakyBucket {
            let place = raw.algorithm.given().map_or(Place::FILE, |algorithm| algorithm.span);
            let advice = "like max_delay: 2s, the longest that a request is held";
            self.required(&raw.max_delay, place, "a leaky_bucket needs \"max_delay\"", advice);
        }
        Details {
            buckets: self
                .number(&raw.buckets, "buckets", 1..=MAX_BUCKETS.into())
                .and_then(|buckets| u32::try_from(buckets).ok()),
            burst: self.number(&raw.burst, "burst", 1..=MAX_LIMIT),
            max_delay: self.span(&raw.max_delay, "max_delay", MAX_DELAY),
            zone: raw.calendar.value().map(String::as_str),
        }
    }

    /// A field of another algorithm has no effect, which its author does not know.
    fn check_fields_of(&self, kind: RawAlgorithm, raw: &RawPolicy) {
        use RawAlgorithm::{FixedWindow, LeakyBucket, SlidingWindow, TokenBucket};
        let fields: [(&str, Option<Place>, &[RawAlgorithm], &str); 4] = [
            ("buckets", place(&raw.buckets), &[SlidingWindow], "sliding_window"),
            (
                "burst",
                place(&raw.burst),
                &[TokenBucket, LeakyBucket],
                "token_bucket or leaky_bucket",
            ),
            ("max_delay", place(&raw.max_delay), &[LeakyBucket], "leaky_bucket"),
            ("calendar", place(&raw.calendar), &[FixedWindow], "fixed_window"),
        ];
        for (field, place, kinds, owner) in fields {
            if let Some(place) = place.filter(|_| !kinds.contains(&kind)) {
                let message = format!("\"{field}\" belongs to the algorithm {owner}");
                let advice = format!("leave it out, or choose {owner}");
                self.problems.error(place, &message, &advice);
            }
        }
    }

    /// The units of another limit for the counters of `own`. `whose` names it
    /// in messages, and `others` that of `own`.
    pub(super) fn same_window(
        &self,
        (limit, place): (Limit, Place),
        own: &Algorithm,
        whose: &str,
        others: &str,
    ) -> Option<u64> {
        if limit.window() == own.window() {
            return Some(limit.units());
        }
        let message = format!("{whose} counts in another window than {others}");
        let advice = if own.window().is_zero() {
            "they share their counters: leave out the time, like 20"
        } else {
            "they share their counters: write the same time behind the count"
        };
        self.problems.error(place, &message, advice);
        None
    }

    /// `own` with another limit, which stands at `place`.
    pub(super) fn with_limit(
        &self,
        own: &Algorithm,
        units: u64,
        place: Place,
    ) -> Option<Algorithm> {
        self.valid(own.with_limit(units), place)
    }

    fn valid(&self, made: Result<Algorithm, QuotaError>, place: Place) -> Option<Algorithm> {
        made.map_err(|error| self.problems.error(place, &error.to_string(), "")).ok()
    }

    /// `own` with what is admitted beyond it, if it is anything.
    pub(super) fn soft(&self, raw: &Field<Percent>, own: &Algorithm) -> Option<Algorithm> {
        let Spanned { value: Percent(percent @ 1..), span, .. } = raw.given()? else { return None };
        let beyond = own.capacity() * u64::from(*percent) / 100;
        if beyond == 0 {
            let message = "so small a part of the limit is less than one, and admits nothing";
            self.problems.warning(*span, message, "write a higher percentage, or leave it out");
            return None;
        }
        self.valid(own.with_capacity(own.capacity() + beyond), *span)
    }
}

impl RawPolicy {
    /// The limit that says how the policy counts: its own, or that of the first plan
    /// that has one; none if it counts nothing, or that is broken.
    pub(super) fn counted_limit(&self) -> Option<Spanned<Limit>> {
        let limited = |field: &Field<Allowance>| match field.given()? {
            Spanned { value: Allowance::Limited(limit), span, .. } => {
                Some(Spanned { value: *limit, span: *span, written: None })
            }
            _ => None,
        };
        if !self.is_unlimited() {
            return limited(&self.limit);
        }
        let plans = self.plans.value()?.limits.value()?;
        plans.0.iter().find_map(|(_, limit)| limited(limit))
    }

    /// Whether it has no limit of its own.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limit.value() == Some(&Allowance::Unlimited)
    }

    /// The algorithm that is written, or the default; none if it is broken.
    pub(super) fn algorithm_kind(&self) -> Option<RawAlgorithm> {
        match &self.algorithm {
            Field::Absent => Some(RawAlgorithm::SlidingWindow),
            Field::Broken => None,
            Field::Given(given) => Some(given.value),
        }
    }
}

/// None if the limit says a time that does not matter, or does not say one that does.
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

/// The field that an error is about, if it is another than the limit.
fn place_of(error: QuotaError, raw: &RawPolicy) -> Option<Place> {
    match error {
        QuotaError::Zero
        | QuotaError::Limit
        | QuotaError::Window
        | QuotaError::LogLimit
        | QuotaError::CalendarWindow
        | QuotaError::Timeless
        | QuotaError::Ban => None,
        QuotaError::Burst | QuotaError::BurstInWindow => place(&raw.burst),
        QuotaError::Buckets | QuotaError::SubWindowsLimit => place(&raw.buckets),
        QuotaError::Delay => place(&raw.max_delay),
        QuotaError::Zone => place(&raw.calendar),
    }
}

fn place<T>(field: &Field<T>) -> Option<Place> {
    field.given().map(|given| given.span)
}
