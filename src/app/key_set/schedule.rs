//! When a set of keys is fetched again. Pure.

use std::time::Duration;

/// The shortest time for which a set is not asked for again, whatever its server
/// says, unless it is to be fetched more often anyway.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// Until the next attempt after one that has failed: twice that after the next one,
/// and so on.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest of these.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// From the end of an attempt until a token that names an unknown key may bring
/// about the next: any client can send such tokens.
pub(super) const MIN_EARLY: Duration = Duration::from_secs(10);

/// When a set of keys is fetched again.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The longest time between two attempts.
    refresh: Duration,
    /// Attempts that have failed, in a row.
    failures: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// There was a set.
    Good {
        /// How long its server says that it holds.
        fresh_for: Option<Duration>,
    },
    /// There was none.
    Failed,
}

impl Schedule {
    /// Fetches at least every `refresh`.
    pub(super) fn new(refresh: Duration) -> Self {
        Self { refresh, failures: 0 }
    }

    /// From the end of an attempt until the next one. `random`, from 0 to 1, makes
    /// it up to a tenth shorter: many gateways must not ask in step.
    pub(super) fn after(&mut self, outcome: Outcome, random: f64) -> Duration {
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
    fn a_server_may_make_the_time_shorter_but_not_longer() {
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
    fn failures_in_a_row_wait_longer_and_longer() {
        let mut schedule = Schedule::new(s(600));
        let waits = [(); 9].map(|()| schedule.after(Outcome::Failed, 0.0));
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60].map(s));
        schedule.after(Outcome::Good { fresh_for: None }, 0.0);
        assert_eq!(schedule.after(Outcome::Failed, 0.0), s(1));
    }

    proptest! {
        #[test]
        fn the_next_attempt_is_never_far_and_never_at_once(
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
