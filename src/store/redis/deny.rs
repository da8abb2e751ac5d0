//! What is known to be refused is refused here, without a call to the store.
//!
//! What counts against a client only grows until time takes it away again. So a
//! state that was seen in the store and refuses a cost at some later time is
//! proof: the store's state, whatever was counted since, refuses it too. No
//! deadline is kept. The algorithm itself is asked every time, with the limit
//! of that moment: a raised limit helps at once, and the verdict has the
//! numbers that the store would give if nothing else was counted since.
//!
//! Three things take units away before their time: what is given back, a
//! settlement below its reservation, and an operator's reset. Who does one of
//! them here says so by [`DenyCache::forget`]. Of other nodes nothing is heard,
//! so a state is trusted for [`TRUSTED_FOR`] only.
//!
//! Guarantees: nothing is refused that the store would admit, except within
//! [`TRUSTED_FOR`] of a give-back or a reset elsewhere. A client in denial costs
//! one call for each node and second. Memory is bounded: under pressure states
//! are forgotten, and the store is asked again.

#[cfg(test)]
mod tests;

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use smallvec::SmallVec;

use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::digest::Key;
use crate::store::{Charge, Verdicts};
use crate::time::{Span, Timestamp};

/// How long a state is believed.
const TRUSTED_FOR: Span = Span::SECOND;
/// What an entry of the table takes beside its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 40;

/// The states of clients that are over a limit, as last seen in the store.
#[derive(Debug)]
pub struct DenyCache {
    seen: Cache<Key, Seen, Bytes>,
}

/// A state, and when the store had it by the store's clock.
#[derive(Debug)]
struct Seen {
    state: Option<State>,
    at: Timestamp,
}

/// What an entry takes in memory.
#[derive(Debug)]
struct Bytes;

impl Weighter<Key, Seen> for Bytes {
    fn weight(&self, _: &Key, seen: &Seen) -> u64 {
        let beside = match &seen.state {
            Some(State::Counts { counts, .. }) => size_of_val(&**counts),
            Some(State::Log(log)) => log.packed_len(),
            _ => 0,
        };
        u64::try_from(entry_bytes() + beside).unwrap_or(u64::MAX)
    }
}

const fn entry_bytes() -> usize {
    size_of::<(Key, Seen)>() + ENTRY_OVERHEAD_BYTES
}

impl DenyCache {
    /// A cache that knows nothing, and grows to about `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        let capacity = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        Self { seen: Cache::with_weighter(max_bytes / entry_bytes(), capacity, Bytes) }
    }

    /// The verdicts on a request that is known to be refused, so that the store
    /// would count nothing: a charge that binds is refused, or all of them are.
    /// None if that is not known, or one of the states is not: then only the
    /// store can tell. `now` is the store's time.
    pub fn refuse(&self, charges: &[Charge<'_>], now: Timestamp) -> Option<Verdicts> {
        let states: Option<SmallVec<[_; 4]>> =
            charges.iter().map(|charge| self.trusted(&charge.key, now)).collect();
        refusal(charges, &states?, now)
    }

    /// Learns the states after a decision of the store at `at`, by its clock,
    /// in the order of the charges. Worth their room are those of a request
    /// that would now be refused; what is known already is brought up to date.
    pub fn learn(&mut self, charges: &[Charge<'_>], states: &[Option<State>], at: Timestamp) {
        let borrowed: SmallVec<[_; 4]> = states.iter().map(Option::as_ref).collect();
        let refused = refusal(charges, &borrowed, at).is_some();
        for (charge, state) in charges.iter().zip(states) {
            if refused || self.seen.contains_key(&charge.key) {
                self.seen.insert(charge.key, Seen { state: state.clone(), at });
            }
        }
    }

    /// Whether anything is remembered of a counter.
    pub fn knows(&self, key: &Key) -> bool {
        self.seen.contains_key(key)
    }

    /// Forgets a counter that has changed otherwise: above all one from which
    /// units are taken away.
    pub fn forget(&mut self, key: &Key) {
        self.seen.remove(key);
    }

    fn trusted(&self, key: &Key, now: Timestamp) -> Option<Option<&State>> {
        let seen = self.seen.get(key)?;
        (now.since(seen.at) < TRUSTED_FOR).then_some(seen.state.as_ref())
    }
}

/// The verdicts on a request in these states, if nothing of it would be counted.
fn refusal(charges: &[Charge<'_>], states: &[Option<&State>], now: Timestamp) -> Option<Verdicts> {
    let mut verdicts = Verdicts::new();
    let (mut stopped, mut counted) = (false, false);
    for (charge, state) in charges.iter().zip(states) {
        let (_, verdict) = charge.algorithm.apply(*state, Op::Take(charge.cost), now);
        let refused = !verdict.admitted && lasts(charge.algorithm);
        stopped |= refused && charge.binding;
        counted |= !refused;
        verdicts.push(verdict);
    }
    if counted && !stopped {
        return None;
    }
    for ((charge, state), verdict) in charges.iter().zip(states).zip(&mut verdicts) {
        if verdict.admitted {
            // Nothing is consumed, so no verdict may say that it is.
            let (_, before) = charge.algorithm.apply(*state, Op::Peek, now);
            *verdict = Verdict { admitted: true, retry: Retry::Now, ..before };
        }
    }
    Some(verdicts)
}

/// Whether a refusal lasts until a time that is known. Of what is in flight
/// nobody knows when it ends.
const fn lasts(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Concurrency(_))
}
