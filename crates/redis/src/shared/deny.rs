//! The deny cache refuses requests that the store is known to refuse, without a call.
//!
//! The units that a counter holds decrease only with time. So if a state that the store
//! reported refuses a cost at a later time, the store's present state refuses it too,
//! whatever was counted since. The cache stores no deadlines. It applies the algorithm each
//! time, with the current limit: a raised limit takes effect at once, and the verdict has
//! the numbers that the store would return if nothing else was counted since.
//!
//! Other nodes and workers may have counted more since. Then the refusal is still right, but
//! its wait is too short, and so is that of a state which does not refuse. So a wait is
//! reported from a state that was read within [`FRESH_FOR`], or if it does not depend on
//! what was counted since: a fixed window or a ban ends when it ends. Otherwise the answer is
//! [`Known::Stale`], and the store is asked. It is not asked if all that such a state may hide
//! ends before a wait that is known.
//!
//! Three operations remove units earlier: a give-back, a settlement below its reservation,
//! and an operator's reset. The worker that performs one of them calls
//! [`DenyCache::forget`]. Other workers and nodes learn of it by `is_current`, see
//! [`Trust`].
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
use tollgate_core::algorithm::{Algorithm, Op, Retry, State, Verdict};
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Charge};
use tollgate_core::time::{Span, Timestamp};

use super::invalidation::MAX_AGE;
use super::store_clock::StoreClock;

/// How old a state may be whose wait is reported. A client that is refused more often than
/// this causes one call in this time, for each worker.
pub const FRESH_FOR: Span = Span::from_millis(10);
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

/// What the cache knows of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "an allocation would cost more than a move")]
pub enum Known {
    /// The store must refuse it, and these are the answers.
    Refused(Answers),
    /// The store must refuse it, because of this counter. Some of the states are too old to
    /// report a wait.
    Stale(Key),
    /// The store must be asked.
    Unknown,
}

/// How far the states of the cache are used.
#[derive(Clone, Copy, Debug)]
pub struct Trust<C> {
    /// This node's time.
    pub now: Timestamp,
    /// How old a state may be whose wait is reported.
    pub fresh_for: Span,
    /// Whether no units were removed from a counter since it was read at the given time.
    pub is_current: C,
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

    /// What is known of a request. It is refused if a binding charge is refused, or if all
    /// charges are. If the cache has no state of one of the charges, the store must be asked:
    /// that charge might be refused for longer, and only the store knows that.
    pub fn judge<'c, C: Fn(&Key, Timestamp) -> bool>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        trust: &Trust<C>,
    ) -> Known {
        let now = trust.now;
        let mut stopped = None;
        let mut counted = false;
        // The longest wait that is known, and the longest one that an old state may hide.
        let mut told = Retry::Now;
        let mut hidden = Retry::Now;
        let mut answers = Answers::new();
        for charge in charges {
            let Some(seen) = self.usable(&charge.key, now) else { return Known::Unknown };
            let mut is_told = now.since(seen.clock.answered()) < trust.fresh_for;
            answers.push(match seen.say(&charge, now) {
                Said::Refused(_) if !(trust.is_current)(&charge.key, seen.clock.asked()) => {
                    return Known::Unknown;
                }
                Said::Refused(verdict) => {
                    if charge.binding {
                        stopped.get_or_insert(charge.key);
                        is_told |= is_certain(charge.algorithm, verdict.retry);
                        told = told.max(if is_told { verdict.retry } else { Retry::Now });
                    }
                    Answer::of_store(verdict)
                }
                Said::Open(verdict) => {
                    counted = true;
                    seen.told(&charge, verdict, now)
                }
            });
            if charge.binding && !is_told {
                let longest = charge.algorithm.longest_wait(seen.clock.bounds(now).0);
                hidden = hidden.max(longest.map_or(Retry::Never, Retry::After));
            }
        }
        match stopped {
            Some(key) if hidden > told => Known::Stale(key),
            Some(_) => Known::Refused(answers),
            None if !counted && !answers.is_empty() => Known::Refused(answers),
            None => Known::Unknown,
        }
    }

    /// The answer of a counter to a request that is refused anyway, if its state was read
    /// within [`FRESH_FOR`].
    pub(crate) fn fresh(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Answer> {
        let seen = self.usable(&charge.key, now)?;
        if now.since(seen.clock.answered()) >= FRESH_FOR {
            return None;
        }
        let (Said::Refused(verdict) | Said::Open(verdict)) = seen.say(charge, now);
        Some(Answer::of_store(verdict))
    }

    fn usable(&self, key: &Key, now: Timestamp) -> Option<&Seen> {
        let seen = self.seen.get(key)?;
        let asked = seen.clock.asked();
        (asked <= now && now.since(asked) < MAX_AGE).then_some(seen)
    }

    /// Stores the states of the charges of a request after a decision of the store at `at`, for a
    /// store that has the same clock as this node.
    pub fn learn<'c>(
        &mut self,
        observed: impl IntoIterator<Item = (Charge<'c>, Option<State>)>,
        at: Timestamp,
    ) {
        let clock = StoreClock::new(at, at, at);
        let observed = observed.into_iter();
        self.learn_all(
            observed.map(|(charge, state)| Observation { charge, state, clock }).collect(),
        );
    }

    /// Stores the states after a decision of one or several servers. The states of a
    /// request are inserted only if it would now be refused. Entries of other requests are
    /// updated.
    pub(crate) fn learn_all(&mut self, observed: SmallVec<[Observation<'_>; 4]>) {
        let mut stopped = false;
        let mut counted = false;
        for Observation { charge, state, clock } in &observed {
            let take = Op::Take(charge.cost);
            let (_, verdict) = charge.algorithm.apply(state.as_ref(), take, clock.store());
            let refused = !verdict.admitted && lasts(charge.algorithm);
            stopped |= refused && charge.binding;
            counted |= !refused;
        }
        for Observation { charge, state, clock } in observed {
            if stopped || !counted || self.seen.contains_key(&charge.key) {
                self.seen.insert(charge.key, Seen { state, clock });
            }
        }
    }

    /// Stores the state of a counter of a request that is refused.
    pub(crate) fn note(&mut self, key: Key, state: Option<State>, clock: StoreClock) {
        self.seen.insert(key, Seen { state, clock });
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
pub(crate) struct Observation<'c> {
    pub(crate) charge: Charge<'c>,
    pub(crate) state: Option<State>,
    pub(crate) clock: StoreClock,
}

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

/// Whether the wait of a refusal does not depend on what else is counted: a fixed window or a
/// ban ends when it ends, and a cost that never fits is always refused.
pub(crate) const fn is_certain(algorithm: &Algorithm, retry: Retry) -> bool {
    match retry {
        Retry::Now => false,
        Retry::After(_) => matches!(algorithm, Algorithm::FixedWindow(_) | Algorithm::Ban(_)),
        Retry::Never => true,
    }
}

/// Whether a refusal lasts until a known time. It is not known when units in flight are
/// given back.
const fn lasts(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Concurrency(_))
}
