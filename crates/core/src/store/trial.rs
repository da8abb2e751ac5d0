//! A decision that is tried on a copy of its counters, so that nothing is counted.
//!
//! The states are read once. Everything that the decision then counts, corrects and imposes
//! changes the copies only, by the code that changes the true counters. If a part of the
//! store does not answer, its charges are decided as this node decides them alone.

use std::fmt::Debug;

use crate::algorithm::State;
use crate::time::Timestamp;

use super::{Charge, Correction, Decided, HoldingTimes, MemoryStore};

/// What a node decides alone in a trial, because a part of the store does not answer.
pub trait Alone: Debug {
    /// Judges all charges: those whose counters were not read by the shares of the node, the others
    /// by `counters`.
    fn apply(&self, counters: &MemoryStore, charges: &[Charge<'_>], at: Timestamp) -> Decided;

    /// Corrects a charge that the node has decided. Returns whether it has.
    fn correct(&self, correction: &Correction<'_>, at: Timestamp) -> bool;
}

/// The counters of one request, copied.
#[derive(Debug)]
pub struct Trial<'s> {
    counters: MemoryStore,
    /// The time of the decision, by the clock of the store.
    at: Timestamp,
    holding: &'s HoldingTimes,
    alone: Option<Box<dyn Alone>>,
}

impl<'s> Trial<'s> {
    /// A trial at `at`, by the clock of the store, with these states.
    pub fn new<'c>(
        found: impl IntoIterator<Item = (Charge<'c>, Option<State>)>,
        at: Timestamp,
        holding: &'s HoldingTimes,
    ) -> Self {
        let counters = MemoryStore::of_one_decision();
        for (Charge { key, algorithm, .. }, state) in found {
            if let Some(state) = state {
                counters.put(key, algorithm, state, at);
            }
        }
        Self { counters, at, holding, alone: None }
    }

    /// The same trial. Some of its charges are decided by this node alone.
    #[must_use]
    pub fn with_alone(self, alone: Option<Box<dyn Alone>>) -> Self {
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
        if let Some(alone) = &self.alone {
            return alone.apply(&self.counters, charges, self.at);
        }
        Decided { at: self.at, answers: self.counters.decide(charges, self.at) }
    }

    /// See [`StoreRef::correct`](super::StoreRef::correct).
    pub(super) fn correct(&self, correction: &Correction<'_>) {
        if let Some(alone) = &self.alone {
            if alone.correct(correction, self.at) {
                return;
            }
        }
        self.counters.correct(&correction.charge, correction.op, self.at);
    }
}
