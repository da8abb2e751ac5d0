//! The fields of each algorithm, and the algorithm that they make. A new algorithm has a row in
//! [`RULES`] and an arm in [`Details::made`].

use std::ops::RangeInclusive;

use super::fault::Faults;
use super::{Field, LimitSpec, PolicySpec};
use crate::algorithm::{
    Algorithm, AlgorithmKind, Concurrency, FixedWindow, LeakyBucket, MAX_BUCKETS, MAX_LIMIT,
    QuotaError, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use crate::time::Span;

/// A delayed request keeps its connection, and clients do not wait for ever.
const MAX_DELAY: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(300);

/// What an algorithm goes with.
pub(super) struct Rules {
    kind: AlgorithmKind,
    /// The fields that not every algorithm has.
    own: &'static [Field],
    /// The fields of all policies that it cannot be combined with, and why.
    pub(super) not_with: &'static [(&'static [Field], &'static str)],
    /// Whether none of its units can be leased or counted later.
    pub(super) is_always_exact: bool,
}

const ENDS: &str = "a request gives its units back when it ends, whatever its outcome";
const MAX_IN_FLIGHT: &str = "an upstream limits its requests in progress with \"max_in_flight\"";
const SLOTS: &str = "the slots of a request cannot be given back, because later requests wait \
                     behind them";
const STEADY: &str = "its units come back all the time, so no share of them is used up";
const EVEN: &str = "requests beyond the limit would not be forwarded at even intervals";

/// The fields that correct the cost after the response.
const CORRECTING: &[Field] = &[Field::Settle, Field::BodyBytes, Field::Count];

static RULES: [Rules; 6] = [
    Rules {
        kind: AlgorithmKind::SlidingWindow,
        own: &[Field::Buckets],
        not_with: &[],
        is_always_exact: false,
    },
    Rules { kind: AlgorithmKind::SlidingLog, own: &[], not_with: &[], is_always_exact: true },
    Rules {
        kind: AlgorithmKind::FixedWindow,
        own: &[Field::Calendar],
        not_with: &[],
        is_always_exact: false,
    },
    Rules {
        kind: AlgorithmKind::TokenBucket,
        own: &[Field::Burst],
        not_with: &[(&[Field::Warn], STEADY)],
        is_always_exact: false,
    },
    Rules {
        kind: AlgorithmKind::LeakyBucket,
        own: &[Field::Burst, Field::MaxDelay],
        not_with: &[
            (CORRECTING, SLOTS),
            (&[Field::Soft, Field::Elastic], EVEN),
            (&[Field::Warn], STEADY),
        ],
        is_always_exact: true,
    },
    Rules {
        kind: AlgorithmKind::Concurrency,
        own: &[],
        not_with: &[
            (CORRECTING, ENDS),
            (&[Field::Elastic], MAX_IN_FLIGHT),
            (&[Field::Warn], STEADY),
        ],
        is_always_exact: true,
    },
];

/// The names of the algorithms with which a policy may have this field.
pub fn algorithms_with(field: &Field) -> Vec<&'static str> {
    let is_owned = RULES.iter().any(|rules| rules.own.contains(field));
    let goes_with = |rules: &&Rules| match is_owned {
        true => rules.own.contains(field),
        false => !rules.not_with.iter().any(|(fields, _)| fields.contains(field)),
    };
    RULES.iter().filter(goes_with).map(|rules| rules.kind.name()).collect()
}

impl AlgorithmKind {
    pub(super) fn rules(self) -> &'static Rules {
        RULES.iter().find(|rules| rules.kind == self).expect("every algorithm has a row")
    }
}

/// The details of an algorithm that are given and within their ranges.
struct Details<'s> {
    buckets: Option<u32>,
    burst: Option<u64>,
    max_delay: Option<Span>,
    zone: Option<&'s str>,
}

impl PolicySpec {
    /// The algorithm that is chosen, or the default. None if it is not known. A month implies
    /// `fixed_window`.
    pub(super) fn kind(&self) -> Option<AlgorithmKind> {
        match self.algorithm.is_absent() {
            true if self.is_monthly() => Some(AlgorithmKind::FixedWindow),
            true => Some(AlgorithmKind::default()),
            false => self.algorithm.copied(),
        }
    }

    /// Whether the limit that decides the window is one of a month.
    fn is_monthly(&self) -> bool {
        matches!(self.counted_limit(), Some((LimitSpec::Rate(quota), _)) if quota.is_monthly())
    }

    /// How the policy counts `limit`, which is written at `at`. None if that is not known.
    pub(super) fn counting(
        &self,
        limit: Option<(LimitSpec, Field)>,
        faults: &Faults,
    ) -> Option<Algorithm> {
        let kind = self.kind()?;
        self.check_fields_of(kind, faults);
        let details = self.details(kind, faults);
        let (limit, at) = limit?;
        let Some(made) = details.made(kind, limit) else {
            let (message, advice) = match kind {
                AlgorithmKind::Concurrency => (
                    "concurrency is limited by a count without a time",
                    "leave out the time, like 20",
                ),
                _ => (
                    "the limit has no time",
                    "write a count per time, like 100/minute, or choose the algorithm concurrency",
                ),
            };
            faults.error(at, message, advice);
            return None;
        };
        let field = made.as_ref().err().and_then(|error| field_of(*error));
        let field = field.filter(|field| self.is_given(field)).unwrap_or(at);
        faults.valid(made, field)
    }

    fn details(&self, kind: AlgorithmKind, faults: &Faults) -> Details<'_> {
        if kind == AlgorithmKind::LeakyBucket {
            let message = "a leaky_bucket needs \"max_delay\"";
            let advice = "like max_delay: 2s, the longest that a request is held";
            faults.required(&self.max_delay, Field::Algorithm, message, advice);
        }
        let buckets = faults.number(&self.buckets, Field::Buckets, 1..=MAX_BUCKETS.into());
        Details {
            buckets: buckets.and_then(|count| u32::try_from(count).ok()),
            burst: faults.number(&self.burst, Field::Burst, 1..=MAX_LIMIT),
            max_delay: faults.duration(&self.max_delay, Field::MaxDelay, MAX_DELAY),
            zone: self.calendar.given().map(String::as_str),
        }
    }

    /// Reports the fields of other algorithms, which would have no effect.
    fn check_fields_of(&self, kind: AlgorithmKind, faults: &Faults) {
        let mut known = Vec::new();
        for field in RULES.iter().flat_map(|rules| rules.own) {
            let owners = algorithms_with(field);
            // Some algorithms have the same field.
            if known.contains(&field) || !self.is_given(field) || owners.contains(&kind.name()) {
                continue;
            }
            known.push(field);
            let owners = owners.join(" or ");
            let message = format!("\"{}\" belongs to the algorithm {owners}", field.name());
            faults.error(field.clone(), message, &format!("leave it out, or choose {owners}"));
        }
    }
}

impl Details<'_> {
    /// None if the limit has a time that the algorithm does not use, or lacks one that it needs.
    fn made(&self, kind: AlgorithmKind, limit: LimitSpec) -> Option<Result<Algorithm, QuotaError>> {
        let &Self { buckets, burst, max_delay, zone } = self;
        let quota = match (kind, limit) {
            (AlgorithmKind::Concurrency, LimitSpec::Count(units)) => {
                return Some(Concurrency::new(units).map(Algorithm::Concurrency));
            }
            (AlgorithmKind::Concurrency, _) | (_, LimitSpec::Count(_) | LimitSpec::Money(_)) => {
                return None;
            }
            (AlgorithmKind::FixedWindow, LimitSpec::Rate(quota)) => quota,
            (_, LimitSpec::Rate(quota)) if quota.is_monthly() => {
                return Some(Err(QuotaError::Month));
            }
            (_, LimitSpec::Rate(quota)) => quota,
        };
        Some(match kind {
            AlgorithmKind::SlidingWindow => match buckets {
                None | Some(1) => Ok(Algorithm::SlidingWindow(SlidingWindow::new(quota))),
                Some(buckets) => SubWindows::new(quota, buckets).map(Algorithm::SubWindows),
            },
            AlgorithmKind::SlidingLog => SlidingLog::new(quota).map(Algorithm::SlidingLog),
            AlgorithmKind::FixedWindow => match zone {
                None => Ok(Algorithm::FixedWindow(FixedWindow::new(quota))),
                #[cfg(feature = "calendar")]
                Some(zone) => FixedWindow::calendar(quota, zone).map(Algorithm::FixedWindow),
                #[cfg(not(feature = "calendar"))]
                Some(_) => Err(QuotaError::Zone),
            },
            AlgorithmKind::TokenBucket => {
                TokenBucket::new(quota, burst.unwrap_or(quota.limit())).map(Algorithm::TokenBucket)
            }
            AlgorithmKind::LeakyBucket => {
                LeakyBucket::new(quota, max_delay.unwrap_or(Span::ZERO), burst)
                    .map(Algorithm::LeakyBucket)
            }
            AlgorithmKind::Concurrency => return None,
        })
    }
}

/// The field that an error is about, if that is not the limit.
const fn field_of(error: QuotaError) -> Option<Field> {
    match error {
        QuotaError::Zero
        | QuotaError::Limit
        | QuotaError::Window
        | QuotaError::LogLimit
        | QuotaError::CalendarWindow
        | QuotaError::Timeless
        | QuotaError::Ban => None,
        QuotaError::Burst | QuotaError::BurstInWindow => Some(Field::Burst),
        QuotaError::Buckets | QuotaError::SubWindowsLimit => Some(Field::Buckets),
        QuotaError::Month => Some(Field::Algorithm),
        QuotaError::Delay => Some(Field::MaxDelay),
        QuotaError::Zone => Some(Field::Calendar),
    }
}
