//! Whether the waits that clients are told are true, for a sample of the keys.
//!
//! A refused charge is told when it fits. If the client comes back after this wait, and no
//! unit of its counter has changed meanwhile, the charge must be admitted. Each shard
//! remembers some refused charges and compares. A counter that changes, by an admitted charge,
//! a correction, a reset or another limit, ends the promise without a result.
//!
//! One key of 16 is in the sample, by the bits of its digest, so all others cost one
//! comparison without a memory access. The promises of a shard are under its lock, so
//! threads cannot come between a verdict and its promise. Units in flight and bans are not
//! sampled: the wait for units in flight is an estimate.

use std::collections::HashMap;

use super::place::Place;
use crate::algorithm::{Algorithm, Retry, Verdict};
use crate::digest::Counter;
use crate::store::Charge;
use crate::store::by_counter::ByCounter;
use crate::time::{Span, Timestamp};

/// The maximum number of promises of all shards.
pub(super) const MAX_PROMISES: usize = 1024;
/// How long a promise is remembered after its wait, at least. Then another key may have its
/// place.
const PATIENCE: Span = Span::from_secs(60);

/// What became of the waits that were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromiseCounts {
    /// The charge was admitted after the wait.
    pub kept: u64,
    /// The charge was refused again, although its counter had not changed.
    pub broken: u64,
}

/// The promises of one shard.
#[derive(Debug)]
pub(super) struct Promises {
    /// It is allocated with the first promise.
    places: Vec<Option<Promise>>,
    max: usize,
    counts: ByCounter<PromiseCounts>,
}

/// A charge that was refused.
#[derive(Debug)]
struct Promise {
    key: u128,
    algorithm: Algorithm,
    cost: u64,
    /// When it fits.
    fits_at: Timestamp,
    /// When another key may have its place.
    ends_at: Timestamp,
}

impl Promises {
    /// Promises of one of this many shards.
    pub(super) fn new(shards: usize) -> Self {
        let max = (MAX_PROMISES / shards.max(1)).max(1);
        Self { places: Vec::new(), max, counts: ByCounter::default() }
    }

    /// Compares the verdict on a charge with the promise of its counter, and remembers a new
    /// promise. It is called before the counter changes. `sample` is that of `place`.
    pub(super) fn judged(
        &mut self,
        place: &Place,
        sample: usize,
        charge: &Charge<'_>,
        verdict: &Verdict,
        now: Timestamp,
    ) {
        let is_timeless = matches!(charge.algorithm, Algorithm::Concurrency(_) | Algorithm::Ban(_));
        if is_timeless || !charge.binding || charge.cost == 0 {
            return;
        }
        let found = self.places.get_mut(sample % self.max);
        if let Some(known @ Some(_)) = found {
            if let Some(promise) = known {
                let is_due = now >= promise.fits_at && charge.cost <= promise.cost;
                if promise.key == place.key && promise.algorithm != *charge.algorithm {
                    *known = None;
                } else if promise.key == place.key && is_due {
                    *known = None;
                    self.count(charge.key.counter, verdict.admitted);
                } else if promise.key == place.key || now < promise.ends_at {
                    return;
                }
            }
        }
        if let Retry::After(wait) = verdict.retry {
            if self.places.is_empty() {
                self.places.resize_with(self.max, || None);
            }
            let fits_at = now.plus(wait);
            let key = place.key;
            let algorithm = charge.algorithm.clone();
            let cost = charge.cost;
            let ends_at = fits_at.plus(wait.max(PATIENCE));
            self.places[sample % self.max] =
                Some(Promise { key, algorithm, cost, fits_at, ends_at });
        }
    }

    /// The counter of `place` changes, so nothing is promised any more.
    pub(super) fn changed(&mut self, place: &Place, sample: usize) {
        if let Some(known) = self.places.get_mut(sample % self.max) {
            if known.as_ref().is_some_and(|promise| promise.key == place.key) {
                *known = None;
            }
        }
    }

    /// All counters change.
    pub(super) fn all_changed(&mut self) {
        self.places.clear();
    }

    fn count(&mut self, counter: Counter, is_kept: bool) {
        let counts = self.counts.of(counter);
        *(if is_kept { &mut counts.kept } else { &mut counts.broken }) += 1;
    }

    /// Adds the counts of this shard to `sums`.
    pub(super) fn add_to(&self, sums: &mut HashMap<Counter, PromiseCounts>) {
        for (counter, counts) in self.counts.iter() {
            let sum = sums.entry(counter).or_default();
            sum.kept += counts.kept;
            sum.broken += counts.broken;
        }
    }
}

#[cfg(test)]
impl Promises {
    /// The number of promises.
    pub(super) fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }
}

#[cfg(test)]
thread_local! {
    /// By how much the waits are too short that this thread tells.
    static FAULT: std::cell::Cell<Span> = const { std::cell::Cell::new(Span::ZERO) };
}

/// The verdict of an algorithm that tells waits which are too short, if a test wants it.
#[cfg(test)]
pub(super) fn with_fault(verdict: Verdict) -> Verdict {
    let fault = FAULT.get().as_micros();
    let shorter = |wait: Span| Span::from_micros(wait.as_micros().saturating_sub(fault));
    match verdict.retry {
        Retry::After(wait) => Verdict { retry: Retry::After(shorter(wait)), ..verdict },
        Retry::Now | Retry::Never => verdict,
    }
}

/// From now on, all waits that this thread tells are shorter by this time.
#[cfg(test)]
pub(super) fn tell_shorter_waits(by: Span) {
    FAULT.set(by);
}
