//! Refunds: units that this node gave back, and that the store has certainly not given back,
//! because it was away or refused the call. They are sent again when the store is back.
//!
//! A refund has the time at which its units were taken. So it gives back only what still counts
//! of them, and a refund whose units do not count any more is dropped. It is sent again as
//! [`Op::Give`], also after an [`Op::Cancel`]: all units of a bucket that were taken long ago may
//! have leaked since, and to give them back would count the leak twice.
//!
//! If it cannot be known whether the store has given the units back, the refund is not sent
//! again: to give units back twice would admit too much. Such units, and those that find no room
//! here, stay charged until they expire.
//!
//! At most [`MAX_REFUNDS`] wait.
//!
//! [`Op::Give`]: tollgate_core::algorithm::Op::Give
//! [`Op::Cancel`]: tollgate_core::algorithm::Op::Cancel

use std::collections::VecDeque;

use tollgate_core::algorithm::{Algorithm, Op};
use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

use super::ask::Ask;
use super::fallback::{ServerStatus, consumes};

/// The maximum number of refunds that wait: responses that end in an outage of some minutes.
pub(crate) const MAX_REFUNDS: usize = 100_000;
/// The maximum number of refunds that were sent again and have no outcome.
const MAX_SENT: usize = 1024;
/// The maximum number of refunds that are searched for those that can be sent.
const MAX_LOOKED_AT: usize = 256;

/// Units of one counter that the store must give back.
#[derive(Clone, Debug)]
pub(crate) struct Refund {
    pub(crate) key: Key,
    pub(crate) algorithm: Algorithm,
    pub(crate) units: u64,
    /// When they were taken, by the store's clock.
    taken: Timestamp,
}

impl Refund {
    /// The refund of an operation that gives units back. None for another operation, and for
    /// units that do not stay counted: units in flight are corrected by their renewal.
    pub(crate) fn of(key: Key, algorithm: &Algorithm, ask: Ask) -> Option<Self> {
        let (Ask::Give { cost: units, taken } | Ask::Cancel { cost: units, taken }) = ask else {
            return None;
        };
        (units > 0 && consumes(algorithm)).then(|| {
            let algorithm = algorithm.clone();
            Self { key, algorithm, units, taken }
        })
    }

    /// What the store is asked.
    pub(crate) const fn ask(&self) -> Ask {
        Ask::Give { cost: self.units, taken: self.taken }
    }

    /// Whether its units still count at `now`.
    fn counts(&self, now: Timestamp) -> bool {
        let op = Op::Settle { reserved: 0, actual: self.units, taken: self.taken };
        let (state, _) = self.algorithm.apply(None, op, self.taken);
        state.is_some_and(|state| self.algorithm.expires_at(&state) > now)
    }
}

/// All refunds of one node that were not given back.
#[derive(Debug, Default)]
pub(crate) struct Refunds {
    waiting: VecDeque<Refund>,
    /// The number of refunds that were sent again and have no reply in time.
    sent: usize,
    /// Units that the store may have given back, since the node has started.
    unknown: u64,
    /// Units that were never sent again for want of room, since the node has started.
    dropped: u64,
}

impl Refunds {
    /// Keeps a refund until the store is back, if its units still count. Returns whether there
    /// was room.
    pub(crate) fn keep(&mut self, refund: Refund, now: Timestamp) -> bool {
        if !refund.counts(now) {
            return true;
        }
        // Those that wait for the longest time are the first to expire.
        if self.waiting.len() >= MAX_REFUNDS
            && self.waiting.front().is_some_and(|oldest| !oldest.counts(now))
        {
            self.waiting.pop_front();
        }
        let has_room = self.waiting.len() < MAX_REFUNDS;
        match has_room {
            true => self.waiting.push_back(refund),
            false => self.dropped = self.dropped.saturating_add(refund.units),
        }
        has_room
    }

    /// Records that it will never be known whether the store has given these units back.
    pub(crate) const fn doubt(&mut self, units: u64) {
        self.unknown = self.unknown.saturating_add(units);
    }

    /// Takes up to `most` refunds that can be sent now. The outcome of each must be recorded, and
    /// [`Self::ended`] be called. Refunds whose units have expired are dropped.
    pub(crate) fn take(
        &mut self,
        most: usize,
        now: Timestamp,
        status: impl Fn(&Key) -> ServerStatus,
    ) -> Vec<Refund> {
        let mut refunds = Vec::new();
        for _ in 0..self.waiting.len().min(MAX_LOOKED_AT.max(most)) {
            if refunds.len() >= most || self.sent >= MAX_SENT {
                break;
            }
            let Some(refund) = self.waiting.pop_front() else { break };
            if !refund.counts(now) {
                continue;
            }
            let can_be_sent = match status(&refund.key) {
                ServerStatus::Down => false,
                ServerStatus::Probing => self.sent == 0,
                ServerStatus::Up => true,
            };
            match can_be_sent {
                true => {
                    self.sent += 1;
                    refunds.push(refund);
                }
                false => self.waiting.push_back(refund),
            }
        }
        refunds
    }

    /// Records that a refund that was [taken](Self::take) has its reply, or has none in time.
    pub(crate) const fn ended(&mut self) {
        self.sent = self.sent.saturating_sub(1);
    }

    /// The number of refunds that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The units that stay charged: those with an unknown outcome, and those that were dropped.
    pub(crate) const fn units_kept(&self) -> [u64; 2] {
        [self.unknown, self.dropped]
    }
}

#[cfg(test)]
mod tests;
