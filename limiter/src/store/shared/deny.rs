//! The deny cache refuses requests that the store is known to refuse, without a call.
//!
//! The units that a counter holds decrease only with time. So if a state that the store
//! reported refuses a cost at a later time, the store's present state refuses it too,
//! whatever was counted since. The cache stores no deadlines. It applies the algorithm each
//! time, with the current limit: a raised limit takes effect at once, and the verdict has
//! the numbers that the store would return if nothing else was counted since.
//!
//! Three operations remove units earlier: a give-back, a settlement below its reservation,
//! and an operator's reset. The worker that performs one of them calls
//! [`DenyCache::forget`]. Other workers and nodes learn of it by `is_current`, see
//! [`refuse_if`](DenyCache::refuse_if).
//!
//! States may come from several servers with different clocks. So each state is stored with
//! the bounds of its server's time.
//!
//! Guarantees: the cache refuses nothing that the store would admit, except until this node
//! learns of a give-back or a reset elsewhere. Memory is bounded: when the cache is full, it
//! evicts states, and the node asks the store again.

#[cfg(test)]
mod tests;

use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use smallvec::SmallVec;

use super::invalidation::MAX_AGE;
use super::store_clock::StoreClock;
use crate::algorithm::{Algorithm, Op, Retry, State, Verdict};
use crate::digest::Key;
use crate::store::{Answer, Charge};
use crate::time::{Span, Timestamp};

/// The memory of an entry in addition to its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 40;
/// How long the remaining units of a state that does not refuse are reported.
const TOLD_FOR: Span = Span::SECOND;

/// One answer for each charge, in their order.
type Answers = SmallVec<[Answer; 4]>;

/// The states of clients that are over a limit, as the store last reported them.
#[derive(Debug)]
pub struct DenyCache {
    seen: Cache<Key, Seen, Bytes>,
}

/// A state, and when the store had it.
#[derive(Debug)]
struct Seen {
    state: Option<State>,
    clock: StoreClock,
}

/// The verdict of a state on a charge.
enum Said {
    /// The store must refuse it.
    Refused(Verdict),
    /// The store may admit it. The verdict is that of the stored state.
    Open(Verdict),
}

/// The memory that an entry takes.
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
    /// An empty cache that grows to about `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        let capacity = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        Self { seen: Cache::with_weighter(max_bytes / entry_bytes(), capacity, Bytes) }
    }

    /// The answers to a request that the store is known to refuse: a binding charge is
    /// refused, or all charges are. None if this is not known, or if the cache has no state
    /// of one of the charges: that charge might be refused for longer, and only the store
    /// knows that. `is_current` says whether no units were removed from a counter since it
    /// was read at the given time. It must be true for the states that refuse. `now` is
    /// this node's time.
    pub fn refuse_if<'c, 'a: 'c>(
        &self,
        charges: impl IntoIterator<Item = &'c Charge<'a>>,
        now: Timestamp,
        is_current: impl Fn(&Key, Timestamp) -> bool,
    ) -> Option<Answers> {
        let (mut stopped, mut counted, mut answers) = (false, false, Answers::new());
        for charge in charges {
            let seen = self.seen.get(&charge.key)?;
            let asked = seen.clock.asked();
            if asked > now || now.since(asked) >= MAX_AGE {
                return None;
            }
            answers.push(match seen.say(charge, now) {
                Said::Refused(_) if !is_current(&charge.key, asked) => return None,
                Said::Refused(verdict) => {
                    stopped |= charge.binding;
                    Answer::of_store(verdict)
                }
                Said::Open(verdict) => {
                    counted = true;
                    seen.told(charge, verdict, now)
                }
            });
        }
        (stopped || !counted && !answers.is_empty()).then_some(answers)
    }

    /// Stores the states after a decision of the store at `at`, in the order of the
    /// charges, for a store that has the same clock as this node.
    pub fn learn(&mut self, charges: &[Charge<'_>], states: &[Option<State>], at: Timestamp) {
        let clock = StoreClock::new(at, at, at);
        let observed = charges.iter().zip(states);
        let observed: SmallVec<[Observation<'_, '_>; 4]> =
            observed.map(|(charge, state)| (charge, state.clone(), clock)).collect();
        self.learn_all(observed);
    }

    /// Stores the states after a decision of one or several servers. The states of a
    /// request are inserted only if it would now be refused. Entries of other requests are
    /// updated.
    pub(in crate::store) fn learn_all<'c, 'a: 'c>(
        &mut self,
        observed: SmallVec<[Observation<'c, 'a>; 4]>,
    ) {
        let (mut stopped, mut counted) = (false, false);
        for (charge, state, clock) in &observed {
            let take = Op::Take(charge.cost);
            let (_, verdict) = charge.algorithm.apply(state.as_ref(), take, clock.store());
            let refused = !verdict.admitted && lasts(charge.algorithm);
            stopped |= refused && charge.binding;
            counted |= !refused;
        }
        for (charge, state, clock) in observed {
            if stopped || !counted || self.seen.contains_key(&charge.key) {
                self.seen.insert(charge.key, Seen { state, clock });
            }
        }
    }

    /// Whether the cache has a state of this counter.
    pub fn knows(&self, key: &Key) -> bool {
        self.seen.contains_key(key)
    }

    /// Removes the state of a counter that was changed otherwise, above all if units were
    /// removed from it.
    pub fn forget(&mut self, key: &Key) {
        self.seen.remove(key);
    }
}

/// A charge, the state of its counter, and when the store had it.
pub(in crate::store) type Observation<'c, 'a> = (&'c Charge<'a>, Option<State>, StoreClock);

impl Seen {
    /// A refusal must hold at the latest possible time of the store. The verdict has the
    /// numbers at the earliest possible time, so that no reported wait is too short.
    fn say(&self, charge: &Charge<'_>, now: Timestamp) -> Said {
        let (earliest, latest) = self.clock.bounds(now);
        let apply = |op, at| charge.algorithm.apply(self.state.as_ref(), op, at).1;
        let take = Op::Take(charge.cost);
        if lasts(charge.algorithm) && !apply(take, latest).admitted {
            return Said::Refused(apply(take, earliest));
        }
        let verdict = apply(take, earliest);
        if !verdict.admitted && !lasts(charge.algorithm) {
            return Said::Open(verdict);
        }
        // The request consumes nothing, so the verdict must not subtract its cost.
        Said::Open(Verdict { admitted: true, retry: Retry::Now, ..apply(Op::Peek, earliest) })
    }

    /// The answer of a state that does not refuse. It is used for a short time only, because
    /// other nodes may have consumed units since.
    fn told(&self, charge: &Charge<'_>, verdict: Verdict, now: Timestamp) -> Answer {
        match now.since(self.clock.asked()) < TOLD_FOR {
            true => Answer::of_store(verdict),
            false => Answer::unasked(charge, now),
        }
    }
}

/// Whether a refusal lasts until a known time. It is not known when units in flight are
/// given back.
const fn lasts(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Concurrency(_))
}
