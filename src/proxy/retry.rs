//! When a request is sent again: which requests, how often, and after which pause.
//! Pure: time and random numbers are arguments.

use std::time::{Duration, Instant};

use fastrand::Rng;
use http::Method;

use super::settings::{RetryCause, RetrySettings};

/// The upper bound of the first pause. It doubles with each retry.
const FIRST_PAUSE_US: u64 = 25_000;
/// The upper bound of every pause.
const MAX_PAUSE_US: u64 = 250_000;

/// One retry, in the unit of [`Budget`].
const RETRY: u64 = 100;
/// The most retries that can be saved: when a backend fails, all its requests in flight
/// fail at once.
const MAX_SAVED: u64 = 100 * RETRY;
/// The initial budget, so that the first requests can be retried too.
const FIRST_SAVED: u64 = 10 * RETRY;
/// Retries per second that are always allowed: a share of little traffic would be none.
const FLOOR_PER_SEC: u64 = RETRY;

/// The retries that one worker may spend on one upstream: a share of its requests.
/// Without such a bound, retries would increase the load of an upstream that is already
/// overloaded.
#[derive(Debug)]
pub struct Budget {
    /// In hundredths of a retry, because shares are in percent.
    saved: u64,
    /// When the floor was last added.
    paid_at: Instant,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Self { saved: FIRST_SAVED, paid_at: now }
    }

    /// Adds the share of one request.
    pub fn pay_in(&mut self, percent: u8) {
        self.saved = (self.saved + u64::from(percent)).min(MAX_SAVED);
    }

    /// Takes one retry. Returns whether there was one.
    pub fn take(&mut self, now: Instant) -> bool {
        let ms = now.saturating_duration_since(self.paid_at).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        let floor = ms.saturating_mul(FLOOR_PER_SEC) / 1000;
        if floor > 0 {
            self.saved = self.saved.saturating_add(floor).min(MAX_SAVED);
            // The remainder counts the next time.
            self.paid_at += Duration::from_millis(floor.saturating_mul(1000) / FLOOR_PER_SEC);
        }
        let rest = self.saved.checked_sub(RETRY);
        self.saved = rest.unwrap_or(self.saved);
        rest.is_some()
    }
}

/// Whether `settings` allow retries of requests with this method.
pub fn allows(settings: Option<&RetrySettings>, method: &Method) -> bool {
    settings.is_some_and(|settings| settings.methods.contains(method))
}

/// RFC 9110, section 9.2.2.
pub fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE
    )
}

/// Whether a request with this method may be processed twice.
pub fn may_repeat(method: &Method, retries: Option<&RetrySettings>) -> bool {
    is_idempotent(method) || allows(retries, method)
}

/// Whether `settings` allow the retry with this number, counted from 1, for this cause.
pub fn covers(settings: &RetrySettings, cause: RetryCause, number: u32) -> bool {
    number <= settings.attempts && settings.on.contains(&cause)
}

/// The pause before the retry with this number, counted from 1: random, up to a bound
/// that doubles, so that requests that failed together are not retried together ("full
/// jitter": M. Brooker, "Exponential backoff and jitter").
pub fn pause(rng: &mut Rng, number: u32) -> Duration {
    let doubled = FIRST_PAUSE_US.saturating_mul(1 << number.saturating_sub(1).min(16));
    Duration::from_micros(rng.u64(0..=doubled.min(MAX_PAUSE_US)))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;
    use tollgate_core::time::monotonic;

    use super::*;

    proptest! {
        /// At all times retries are at most a share of the requests, plus one per second,
        /// plus the initial budget.
        #[test]
        fn retries_stay_within_their_share(
            percent in 0_u8..=100,
            pauses_ms in prop::collection::vec(0_u64..50, 1..400),
        ) {
            let start = monotonic();
            let mut budget = Budget::new(start);
            let mut elapsed_ms = 0;
            let mut requests = 0;
            let mut retries = 0;
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
    fn little_traffic_can_be_retried_too() {
        let start = monotonic();
        let mut budget = Budget::new(start);
        while budget.take(start) {}
        assert!(!budget.take(start + Duration::from_millis(999)));
        // Small amounts add up.
        assert!(budget.take(start + Duration::from_millis(1000)));
        assert!(!budget.take(start + Duration::from_millis(1999)));
    }

    #[test]
    fn saved_retries_are_bounded() {
        let start = monotonic();
        let mut budget = Budget::new(start);
        (0..100_000).for_each(|_| budget.pay_in(100));
        let late = start + Duration::from_secs(86_400);
        assert_eq!((0..1000).filter(|_| budget.take(late)).count(), 100);
    }

    #[test]
    fn only_methods_and_causes_that_the_route_names_are_retried() {
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
