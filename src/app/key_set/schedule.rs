//! When a key set is fetched again. Pure.

use std::time::Duration;

/// The shortest time after a successful fetch, whatever lifetime the server names, unless
/// the configured interval is shorter.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// The wait after the first failed attempt. It doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// The shortest time from the end of an attempt to one that a token with an unknown key
/// causes. Any client can send such tokens.
pub const MIN_EARLY: Duration = Duration::from_secs(10);

/// When a key set is fetched again.
#[derive(Debug)]
pub struct Schedule {
    /// The longest time between two attempts.
    refresh: Duration,
    /// Consecutive failed attempts.
    failures: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// A valid set was fetched.
    Good {
        /// The lifetime that the server names.
        fresh_for: Option<Duration>,
    },
    /// No valid set was fetched.
    Failed,
}

impl Schedule {
    /// Fetches at least every `refresh`.
    pub fn new(refresh: Duration) -> Self {
        Self { refresh, failures: 0 }
    }

    /// The time from the end of an attempt to the next one. `random`, from 0 to 1, shortens
    /// it by up to a tenth, so that many gateways do not fetch at the same moments.
    pub fn after(&mut self, outcome: Outcome, random: f64) -> Duration {
        let interval = match outcome {
            Outcome::Good { fresh_for } => {
                self.failures = 0;
                let shortest = MIN_INTERVAL.min(self.refresh);
                fresh_for.unwrap_or(self.refresh).clamp(shortest, self.refresh)
            }
            Outcome::Failed => {
                let doubled = 2_u32.saturating_pow(self.failures);
                self.failures = self.failures.saturating_add(1);
                FIRST_RETRY.saturating_mul(doubled).min(MAX_RETRY).min(self.refresh)
            }
        };
        interval.mul_f64(1.0 - 0.1 * random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_server_may_shorten_the_interval_but_not_lengthen_it() {
        for (refresh, fresh_for, expected) in [
            (s(600), None, s(600)),
            (s(600), Some(s(300)), s(300)),
            (s(600), Some(s(86_400)), s(600)),
            (s(600), Some(s(0)), s(60)),
            (s(5), Some(s(0)), s(5)),
            (s(5), None, s(5)),
        ] {
            let wait = Schedule::new(refresh).after(Outcome::Good { fresh_for }, 0.0);
            assert_eq!(wait, expected, "{refresh:?} {fresh_for:?}");
        }
    }

    #[test]
    fn each_consecutive_failure_doubles_the_wait() {
        let mut schedule = Schedule::new(s(600));
        let waits = [(); 9].map(|()| schedule.after(Outcome::Failed, 0.0));
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60].map(s));
        schedule.after(Outcome::Good { fresh_for: None }, 0.0);
        assert_eq!(schedule.after(Outcome::Failed, 0.0), s(1));
    }

    proptest! {
        #[test]
        fn the_wait_is_bounded_on_both_sides(
            refresh in 1..100_000_u64,
            outcomes in prop::collection::vec(prop::option::of(prop::option::of(0..u64::MAX)), 1..80),
            random in 0.0..=1.0_f64,
        ) {
            let mut schedule = Schedule::new(s(refresh));
            for outcome in outcomes {
                let outcome = match outcome {
                    Some(fresh_for) => Outcome::Good { fresh_for: fresh_for.map(s) },
                    None => Outcome::Failed,
                };
                let wait = schedule.after(outcome, random);
                prop_assert!(wait <= s(refresh) && wait >= Duration::from_millis(900), "{wait:?}");
            }
        }
    }
}
