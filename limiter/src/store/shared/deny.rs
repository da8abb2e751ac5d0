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
//! settlement below its reservation, and an operator's reset. The worker that
//! does one of them says so by [`DenyCache::forget`]; other workers and nodes
//! hear of it by what they are told with each question, see
//! [`refuse_if`](DenyCache::refuse_if).
//!
//! States may be of several places, each with a clock of its own. So with each
//! state the bounds are kept of what time it is there.
//!
//! Guarantees: nothing is refused that the store would admit, except for as long
//! as a give-back or a reset elsewhere was not heard of. Memory is bounded:
//! under pressure states are forgotten, and the store is asked again.

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

/// What an entry of the table takes beside its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 40;
/// For how long it is told what remains by a state that does not refuse.
const TOLD_FOR: Span = Span::SECOND;

/// One answer for each charge, in their order.
type Answers = SmallVec<[Answer; 4]>;

/// The states of clients that are over a limit, as last seen in the store.
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

/// What a state says of a charge.
enum Said {
    /// The store must refuse it.
    Refused(Verdict),
    /// The store may admit it; what was known of it then.
    Open(Verdict),
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

    /// The answers to a request that is known to be refused, so that the store
    /// would count nothing: a charge that binds is refused, or all of them are.
    /// None if that is not known, or nothing is known of one of the charges: it
    /// might refuse for longer, as only the store can tell. `is_current` says of
    /// a counter that was asked for at a time whether no units were taken away
    /// from it since; of what refuses it must be so. `now` is this node's time.
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

    /// Learns the states after a decision of the store at `at`, in the order of
    /// the charges, where its clock is this node's.
    pub fn learn(&mut self, charges: &[Charge<'_>], states: &[Option<State>], at: Timestamp) {
        let clock = StoreClock::new(at, at, at);
        let found = charges.iter().zip(states);
        let found: SmallVec<[Found<'_, '_>; 4]> =
            found.map(|(charge, state)| (charge, state.clone(), clock)).collect();
        self.learn_all(found);
    }

    /// Learns the states after a decision of the store, in one place or several.
    /// Worth their room are those of a request that would now be refused; what is
    /// known already is brought up to date.
    pub(in crate::store) fn learn_all<'c, 'a: 'c>(&mut self, found: SmallVec<[Found<'c, 'a>; 4]>) {
        let (mut stopped, mut counted) = (false, false);
        for (charge, state, clock) in &found {
            let take = Op::Take(charge.cost);
            let (_, verdict) = charge.algorithm.apply(state.as_ref(), take, clock.store());
            let refused = !verdict.admitted && lasts(charge.algorithm);
            stopped |= refused && charge.binding;
            counted |= !refused;
        }
        for (charge, state, clock) in found {
            if stopped || !counted || self.seen.contains_key(&charge.key) {
                self.seen.insert(charge.key, Seen { state, clock });
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
}

/// A charge, the state of its counter, and when the store had it.
pub(in crate::store) type Found<'c, 'a> = (&'c Charge<'a>, Option<State>, StoreClock);

impl Seen {
    /// It must be refused by the latest time that it may be in the store. The
    /// numbers told are those of the earliest, so that no wait is too short.
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
        // Nothing is consumed, so no verdict may say that it is.
        Said::Open(Verdict { admitted: true, retry: Retry::Now, ..apply(Op::Peek, earliest) })
    }

    /// What a state tells that does not refuse: others may have consumed since.
    fn told(&self, charge: &Charge<'_>, verdict: Verdict, now: Timestamp) -> Answer {
        match now.since(self.clock.asked()) < TOLD_FOR {
            true => Answer::of_store(verdict),
            false => Answer::unasked(charge, now),
        }
    }
}

/// Whether a refusal lasts until a time that is known. Of what is in flight
/// it is not known when it ends.
const fn lasts(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Concurrency(_))
}
