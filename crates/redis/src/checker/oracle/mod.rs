//! Judges a run when it is over: whether any promise of docs/redis.md was broken.
//!
//! It knows the true time of everything, what the servers really did, and what
//! clients were told. For each counter it keeps an exact count of its own of
//! what was admitted, when it was admitted (`ledger`).

mod bounds;
pub(super) mod budgets;
mod ledger;
mod promises;
mod upkeep;

use std::fmt;

use super::journal::Journal;
use super::scenario::Scenario;

use ledger::Ledger;
use tollgate_core::algorithm::{Algorithm, LeakyBucket, Quota};

/// So many times the capacity is counted before the count is cut off.
const HEADROOM: u64 = 16;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) promise: &'static str,
    pub(super) at_us: u64,
    pub(super) how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, at_us, how } = self;
        write!(f, "{promise}: {how}, at {}.{:03} ms", at_us / 1000, at_us % 1000)
    }
}

/// Every promise that a run broke, once for each counter.
pub(super) fn judge(scenario: &Scenario, journal: &Journal) -> Vec<Broken> {
    let mut broken = Vec::new();
    broken.extend(promises::waits(scenario, journal));
    broken.extend(promises::sources(scenario, journal));
    for (counter, counted) in scenario.counters.iter().enumerate() {
        let ledger = Ledger::of(scenario, journal, counter);
        broken.extend(bounds::at_once(scenario, journal, counted, &ledger));
        broken.extend(bounds::in_the_long_run(scenario, counted, &ledger));
        broken.extend(bounds::over_outages(scenario, counted, &ledger));
        broken.extend(budgets::b1(scenario, journal, counter, counted));
        if !counted.is_plain {
            continue;
        }
        broken.extend(promises::known(scenario, journal, counter));
        broken.extend(promises::innocents(scenario, counted, &ledger));
        broken.extend(upkeep::counts(scenario, journal, counter, &ledger));
        broken.extend(upkeep::conserved(scenario, journal, counter, &ledger));
        broken.extend(upkeep::flights(scenario, journal, counter, &ledger));
    }
    broken.extend(promises::retries(scenario, journal));
    broken
}

/// The same counter, with room for more than its limit. Both count alike.
pub(super) fn roomy(algorithm: &Algorithm) -> Algorithm {
    let roomy = match algorithm {
        Algorithm::LeakyBucket(_) => Quota::new(algorithm.limit(), algorithm.window())
            .and_then(|quota| LeakyBucket::new(quota, tollgate_core::time::Span::DAY, None))
            .map(Algorithm::LeakyBucket),
        _ => algorithm.with_capacity(algorithm.capacity() * HEADROOM),
    };
    roomy.expect("the limits of scenarios are small")
}
