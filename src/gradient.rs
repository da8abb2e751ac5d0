//! Whether an upstream is slowing down: its latency of late against its latency
//! over a long time.
//!
//! An upstream that is given more than it can do lets requests wait, so its
//! latency grows before anything fails. What latency is normal differs from one
//! upstream to the next, and so is not set but learnt (after the "Gradient2"
//! limit of Netflix's concurrency-limits, which compares averages instead of
//! probing for a minimum, because probing is itself an interruption).
//!
//! Integers only, a few nanoseconds a latency, and as large after a year as at
//! the start.

use tollgate_limiter::time::Span;

/// About how many latencies the long average is over.
const LONG: u64 = 600;
/// About how many latencies the short one is over: enough that a single slow
/// answer is not a slow upstream.
const SHORT: u64 = 20;
/// The short average may be so many percent of the long one before the upstream
/// counts as slowing.
const TOLERATED_PERCENT: u64 = 150;
/// The least that the gradient says.
const LEAST_PERCENT: u64 = 50;
/// No latency counts as longer than this.
const LONGEST: Span = Span::from_secs(3600);

/// A short and a long average of an upstream's latencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyGradient {
    short: Average,
    long: Average,
}

impl LatencyGradient {
    /// Learns one latency.
    pub(crate) fn observe(&mut self, latency: Span) {
        let us = latency.min(LONGEST).as_micros();
        self.short.observe(us, SHORT);
        self.long.observe(us, LONG);
        if self.long.parts > 2 * self.short.parts {
            // A bad time is over. Without this it would be taken for the normal
            // one for long, and the next bad time not be seen.
            self.long.parts -= self.long.parts / 20;
        }
    }

    /// The latency of late; none before the first.
    pub(crate) fn latency(&self) -> Option<Span> {
        (self.short.observed > 0).then(|| Span::from_micros(self.short.parts / Average::PARTS))
    }

    /// How much of its load the upstream bears: 100 while it is not slowing,
    /// down to 50 if it takes three times as long as it used to.
    pub(crate) fn percent(&self) -> u64 {
        let tolerated = self.long.parts.saturating_mul(TOLERATED_PERCENT);
        tolerated.checked_div(self.short.parts).unwrap_or(100).clamp(LEAST_PERCENT, 100)
    }

    /// Whether the upstream takes longer of late than it used to.
    pub(crate) fn is_slowing(&self) -> bool {
        self.percent() < 100
    }
}

/// An average in which each value counts less than the one after it.
#[derive(Clone, Debug, Default)]
struct Average {
    /// Microseconds times [`Self::PARTS`].
    parts: u64,
    /// How many values there were, up to as many as it is over.
    observed: u64,
}

impl Average {
    /// So fine that a step that is rounded away makes no difference.
    const PARTS: u64 = 1024;

    /// Until there are `over` values it is their plain average.
    fn observe(&mut self, us: u64, over: u64) {
        self.observed = over.min(self.observed + 1);
        let parts = us * Self::PARTS;
        if parts > self.parts {
            self.parts += (parts - self.parts) / self.observed;
        } else {
            self.parts -= (self.parts - parts) / self.observed;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn observe(gradient: &mut LatencyGradient, latency_ms: u64, times: u32) {
        for _ in 0..times {
            gradient.observe(Span::from_millis(latency_ms));
        }
    }

    #[test]
    fn nothing_is_known_of_an_upstream_that_has_not_answered() {
        let gradient = LatencyGradient::default();
        assert_eq!((gradient.latency(), gradient.percent()), (None, 100));
        assert!(!gradient.is_slowing());
    }

    #[test]
    fn an_upstream_that_takes_twice_as_long_is_slowing_until_that_is_normal() {
        let mut gradient = LatencyGradient::default();
        observe(&mut gradient, 100, 600);
        assert!(!gradient.is_slowing());
        observe(&mut gradient, 200, 40);
        assert!(gradient.is_slowing());
        assert!((50..100).contains(&gradient.percent()));
        observe(&mut gradient, 200, 1500);
        assert!(!gradient.is_slowing());
    }

    #[test]
    fn a_single_slow_answer_is_no_slow_upstream() {
        let mut gradient = LatencyGradient::default();
        observe(&mut gradient, 100, 600);
        observe(&mut gradient, 800, 1);
        assert!(!gradient.is_slowing());
    }

    #[test]
    fn after_a_bad_time_the_next_one_is_seen_soon() {
        let mut gradient = LatencyGradient::default();
        observe(&mut gradient, 100, 600);
        observe(&mut gradient, 5000, 2000);
        observe(&mut gradient, 100, 150);
        observe(&mut gradient, 400, 40);
        assert!(gradient.is_slowing());
    }

    proptest! {
        #[test]
        fn an_even_latency_is_told_to_the_microsecond_and_never_slowing(
            us in 0..10_000_000_u64,
            times in 1..2000_u32,
        ) {
            let mut gradient = LatencyGradient::default();
            for _ in 0..times {
                gradient.observe(Span::from_micros(us));
            }
            prop_assert_eq!(gradient.latency(), Some(Span::from_micros(us)));
            prop_assert!(!gradient.is_slowing());
        }

        #[test]
        fn averages_stay_among_what_was_observed(
            latencies_us in prop::collection::vec(
                prop_oneof![any::<u64>(), 0..1_000_000_u64],
                1..1000,
            ),
        ) {
            let mut gradient = LatencyGradient::default();
            for &us in &latencies_us {
                gradient.observe(Span::from_micros(us));
            }
            let clipped = || latencies_us.iter().map(|us| Span::from_micros(*us).min(LONGEST));
            let latency = gradient.latency().unwrap();
            prop_assert!(clipped().min() <= Some(latency) && Some(latency) <= clipped().max());
            prop_assert!((50..=100).contains(&gradient.percent()));
        }
    }
}
