//! Detects whether an upstream is slowing down: compares its recent latency with its
//! latency over a long time.
//!
//! If an upstream gets more requests than it can process, requests wait, so its latency
//! grows before any request fails. The normal latency differs between upstreams, so it is
//! measured and not configured. The method is that of the "Gradient2" limit of Netflix's
//! concurrency-limits, which compares averages instead of probing for a minimum, because
//! probing interrupts the traffic.
//!
//! It uses integers only, takes a few nanoseconds per latency, and has a constant size.

use tollgate_core::time::Span;

/// The approximate number of latencies in the long average.
const LONG: u64 = 600;
/// The approximate number of latencies in the short average. It is large enough that a
/// single slow response does not count as a slow upstream.
const SHORT: u64 = 20;
/// If the short average exceeds this percentage of the long one, the upstream counts as
/// slowing down.
const TOLERATED_PERCENT: u64 = 150;
/// The smallest gradient.
const LEAST_PERCENT: u64 = 50;
/// Longer latencies count as this latency.
const LONGEST: Span = Span::from_secs(3600);

/// A short and a long average of an upstream's latencies.
#[derive(Clone, Debug, Default)]
pub struct LatencyGradient {
    short: Average,
    long: Average,
}

impl LatencyGradient {
    /// Adds one latency.
    pub fn observe(&mut self, latency: Span) {
        let us = latency.min(LONGEST).as_micros();
        self.short.observe(us, SHORT);
        self.long.observe(us, LONG);
        if self.long.parts > 2 * self.short.parts {
            // A slow period has ended. Otherwise its latency would count as normal for a
            // long time, and the next slow period would not be detected.
            self.long.parts -= self.long.parts / 20;
        }
    }

    /// The recent latency. None before the first one.
    pub fn latency(&self) -> Option<Span> {
        (self.short.observed > 0).then(|| Span::from_micros(self.short.parts / Average::PARTS))
    }

    /// The share of its load that the upstream can process, in percent: 100 while it is not
    /// slowing down, and down to 50 if it takes three times as long as before.
    pub fn percent(&self) -> u64 {
        let tolerated = self.long.parts.saturating_mul(TOLERATED_PERCENT);
        tolerated.checked_div(self.short.parts).unwrap_or(100).clamp(LEAST_PERCENT, 100)
    }

    /// Whether the recent latency exceeds the normal one.
    pub fn is_slowing(&self) -> bool {
        self.percent() < 100
    }
}

/// An average in which older values have smaller weights.
#[derive(Clone, Debug, Default)]
struct Average {
    /// Microseconds times [`Self::PARTS`].
    parts: u64,
    /// The number of values, up to the length of the average.
    observed: u64,
}

impl Average {
    /// The resolution. It is so fine that rounding makes no difference.
    const PARTS: u64 = 1024;

    /// The plain average, until there are `over` values.
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
    fn an_upstream_without_a_response_has_no_latency() {
        let gradient = LatencyGradient::default();
        assert_eq!((gradient.latency(), gradient.percent()), (None, 100));
        assert!(!gradient.is_slowing());
    }

    #[test]
    fn an_upstream_that_takes_twice_as_long_is_slowing_until_this_is_normal() {
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
    fn a_single_slow_response_does_not_count_as_a_slow_upstream() {
        let mut gradient = LatencyGradient::default();
        observe(&mut gradient, 100, 600);
        observe(&mut gradient, 800, 1);
        assert!(!gradient.is_slowing());
    }

    #[test]
    fn after_a_slow_period_the_next_one_is_detected_soon() {
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
