//! When a request is sent again: what may be repeated, how often, and after
//! which pause. Pure: time and random numbers come in as arguments.

use std::time::{Duration, Instant};

use fastrand::Rng;
use http::Method;

use super::settings::{RetryCause, RetrySettings};

/// The longest first pause; each further one may be twice as long.
const FIRST_PAUSE_US: u64 = 25_000;
/// The longest pause of all.
const MAX_PAUSE_US: u64 = 250_000;

/// A retry, in the unit of [`Budget`].
const RETRY: u64 = 100;
/// Retries that can be saved up: when a backend dies, all that it had in hand
/// fails at once.
const MAX_SAVED: u64 = 100 * RETRY;
/// What a budget begins with, so that the first requests can be repeated too.
const FIRST_SAVED: u64 = 10 * RETRY;
/// Retries a second that need no traffic: a share of little would be none.
const FLOOR_PER_SEC: u64 = RETRY;

/// Retries that one worker may spend on one upstream: a share of its requests.
/// Without such a bound an overloaded upstream gets the more work the less of
/// it it can do.
#[derive(Debug)]
pub(super) struct Budget {
    /// In hundredths of a retry, since shares are in percent.
    saved: u64,
    /// When the floor was last paid in.
    paid_at: Instant,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Self { saved: FIRST_SAVED, paid_at: now }
    }

    /// A request comes that pays in this share of a retry.
    pub(super) fn pay_in(&mut self, percent: u8) {
        self.saved = (self.saved + u64::from(percent)).min(MAX_SAVED);
    }

    /// Takes out one retry, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let ms = now.saturating_duration_since(self.paid_at).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        let floor = ms.saturating_mul(FLOOR_PER_SEC) / 1000;
        if floor > 0 {
            self.saved = self.saved.saturating_add(floor).min(MAX_SAVED);
            // What is left over counts the next time.
            self.paid_at += Duration::from_millis(floor.saturating_mul(1000) / FLOOR_PER_SEC);
        }
        let rest = self.saved.checked_sub(RETRY);
        self.saved = rest.unwrap_or(self.saved);
        rest.is_some()
    }
}

/// Whether `settings` allow a request of this method to be sent again at all.
pub(super) fn allows(settings: Option<&RetrySettings>, method: &Method) -> bool {
    settings.is_some_and(|settings| settings.methods.contains(method))
}

/// Whether `settings` allow the retry with this number, from 1 on, for this cause.
pub(super) fn covers(settings: &RetrySettings, cause: RetryCause, number: u32) -> bool {
    number <= settings.attempts && settings.on.contains(&cause)
}

/// How long to wait before the retry with this number, from 1 on: anything up
/// to a bound that doubles, so that requests that failed together do not come
/// back together ("full jitter": M. Brooker, "Exponential backoff and jitter").
pub(super) fn pause(rng: &mut Rng, number: u32) -> Duration {
    let doubled = FIRST_PAUSE_US.saturating_mul(1 << number.saturating_sub(1).min(16));
    Duration::from_micros(rng.u64(0..=doubled.min(MAX_PAUSE_US)))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;
    use crate::time::monotonic;

    proptest! {
        /// Whatever comes when: retries are a share of the requests, one a second,
        /// and what was there at the beginning.
        #[test]
        fn retries_stay_within_their_share(
            percent in 0_u8..=100,
            pauses_ms in prop::collection::vec(0_u64..50, 1..400),
        ) {
            let start = monotonic();
            let mut budget = Budget::new(start);
            let (mut elapsed_ms, mut requests, mut retries) = (0, 0, 0);
            for pause_ms in pauses_ms {
                elapsed_ms += pause_ms;
                budget.pay_in(percent);
                requests += 1;
                let now = start + Duration::from_millis(elapsed_ms);
                while budget.take(now) {
                    retries += 1;
                }
                let share = requests * u64::from(percent);
                let bound = FIRST_SAVED + share + elapsed_ms * FLOOR_PER_SEC / 1000;
                prop_assert!(retries * RETRY <= bound, "{retries} retries of {requests} requests");
            }
        }

        #[test]
        fn a_pause_doubles_up_to_a_bound(seed: u64, number in 1_u32..100) {
            let bound = match number {
                1 => 25,
                2 => 50,
                3 => 100,
                4 => 200,
                _ => 250,
            };
            let pause = pause(&mut Rng::with_seed(seed), number);
            prop_assert!(pause <= Duration::from_millis(bound), "{pause:?}");
        }
    }

    #[test]
    fn little_traffic_can_be_repeated_too() {
        let start = monotonic();
        let mut budget = Budget::new(start);
        while budget.take(start) {}
        assert!(!budget.take(start + Duration::from_millis(999)));
        // What was paid in is kept, however small the pieces.
        assert!(budget.take(start + Duration::from_millis(1000)));
        assert!(!budget.take(start + Duration::from_millis(1999)));
    }

    #[test]
    fn what_is_saved_is_bounded() {
        let start = monotonic();
        let mut budget = Budget::new(start);
        (0..100_000).for_each(|_| budget.pay_in(100));
        let late = start + Duration::from_secs(86_400);
        assert_eq!((0..1000).filter(|_| budget.take(late)).count(), 100);
    }

    #[test]
    fn only_what_the_route_names_is_repeated() {
        let settings = RetrySettings {
            attempts: 2,
            on: vec![RetryCause::Connect, RetryCause::Unavailable],
            methods: vec![Method::GET],
            budget_percent: 20,
        };
        assert!(allows(Some(&settings), &Method::GET));
        assert!(!allows(Some(&settings), &Method::POST));
        assert!(!allows(None, &Method::GET));
        assert!(covers(&settings, RetryCause::Connect, 2));
        assert!(!covers(&settings, RetryCause::Connect, 3));
        assert!(!covers(&settings, RetryCause::Reset, 1));
    }
}
