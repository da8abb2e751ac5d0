//! A decision that is tried on a copy of its counters, so that nothing is counted.
//!
//! The states are read once. Everything that the decision then counts, corrects and imposes
//! changes the copies only, by the code that changes the true counters. If a part of the
//! store does not answer, its charges are decided as this node decides them alone.

use crate::algorithm::State;
use crate::time::Timestamp;

use super::{Charge, Correction, Decided, HoldingTimes, MemoryStore};

#[cfg(feature = "redis")]
pub(super) use self::alone::Alone;

/// The counters of one request, copied.
#[derive(Debug)]
pub struct Trial<'s> {
    counters: MemoryStore,
    /// The time of the decision, by the clock of the store.
    at: Timestamp,
    holding: &'s HoldingTimes,
    #[cfg(feature = "redis")]
    alone: Option<Alone>,
}

impl<'s> Trial<'s> {
    /// A trial at `at`, by the clock of the store, with these states.
    pub(super) fn new<'c>(
        found: impl IntoIterator<Item = (&'c Charge<'c>, Option<State>)>,
        at: Timestamp,
        holding: &'s HoldingTimes,
    ) -> Self {
        let counters = MemoryStore::of_one_decision();
        for (Charge { key, algorithm, .. }, state) in found {
            if let Some(state) = state {
                counters.put(*key, algorithm, state, at);
            }
        }
        Self {
            counters,
            at,
            holding,
            #[cfg(feature = "redis")]
            alone: None,
        }
    }

    /// The same trial. Some of its charges are decided by this node alone.
    #[cfg(feature = "redis")]
    pub(super) fn with_alone(self, alone: Option<Alone>) -> Self {
        Self { alone, ..self }
    }

    /// The time of the decision, by the clock of the store.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The mean times for which the true counters are held.
    pub(super) const fn holding(&self) -> &'s HoldingTimes {
        self.holding
    }

    /// See [`StoreRef::apply`](super::StoreRef::apply).
    pub(super) fn apply(&self, charges: &[Charge<'_>]) -> Decided {
        #[cfg(feature = "redis")]
        if let Some(alone) = &self.alone {
            return alone.apply(&self.counters, charges, self.at);
        }
        Decided::of_store(self.at, self.counters.apply(charges, self.at))
    }

    /// See [`StoreRef::correct`](super::StoreRef::correct).
    pub(super) fn correct(&self, correction: &Correction<'_>) {
        #[cfg(feature = "redis")]
        if let Some(alone) = &self.alone
            && alone.correct(correction, self.at)
        {
            return;
        }
        self.counters.correct(&correction.charge, correction.op, self.at);
    }
}

#[cfg(feature = "redis")]
mod alone {
    use smallvec::SmallVec;

    use crate::digest::Key;
    use crate::store::shared::fallback::{Fallback, Undecided};
    use crate::store::{Answer, Charge, Correction, Decided, MemoryStore, Source};
    use crate::time::Timestamp;

    /// What this node decides alone, because a part of the store does not answer.
    #[derive(Debug)]
    pub(in crate::store) struct Alone {
        /// A copy of this node's shares.
        pub(in crate::store) fallback: Fallback,
        /// The number of nodes.
        pub(in crate::store) nodes: u64,
        /// The counters that were not read.
        pub(in crate::store) keys: Vec<Key>,
    }

    impl Alone {
        pub(super) fn apply(
            &self,
            counters: &MemoryStore,
            charges: &[Charge<'_>],
            at: Timestamp,
        ) -> Decided {
            let is_lost = |charge: &&Charge<'_>| self.keys.contains(&charge.key);
            let (lost, found): (Vec<Charge<'_>>, Vec<Charge<'_>>) =
                charges.iter().partition(is_lost);
            let refused =
                |charge: &Charge<'_>| charge.binding && !counters.look(charge, at).admitted;
            let refused = found.iter().any(refused);
            let undecided: SmallVec<[Undecided<'_>; 4]> =
                lost.iter().map(|&charge| Undecided::without_store(charge)).collect();
            let local = self.fallback.judge(&undecided, refused, self.nodes, at);
            let refused = refused
                || lost
                    .iter()
                    .zip(&local)
                    .any(|(it, answer)| it.binding && !answer.verdict.admitted);
            let counted = match refused {
                true => found.iter().map(|charge| counters.look(charge, at)).collect(),
                false => counters.apply(&found, at),
            };
            let (mut counted, mut local) = (counted.into_iter(), local.into_iter());
            let answer = |charge: &Charge<'_>| match is_lost(&charge) {
                true => local.next(),
                false => counted.next().map(Answer::of_store),
            };
            Decided { at, answers: charges.iter().filter_map(answer).collect() }
        }

        /// Corrects a charge that this node has decided. Returns whether it has.
        pub(super) fn correct(&self, correction: &Correction<'_>, at: Timestamp) -> bool {
            if correction.source == Source::Local {
                self.fallback.correct(correction, self.nodes, at);
            }
            correction.source != Source::Store
        }
    }
}
