//! What is known of a share of a limit that is passed, and of a settlement that may pass one, or
//! the limit itself.

use std::sync::Arc;

use crate::algorithm::Op;
use crate::digest::Key;
use crate::policy::{Cost, Policy};
use crate::store::{Correction, Moved, Source};
use crate::time::Span;

/// A share of a limit that a client has passed.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The counter, under the policy's own window.
    pub key: Key,
    /// The share in percent.
    pub share: u8,
    /// The units that are counted.
    pub used: u64,
    /// The limit.
    pub limit: u64,
    /// The time until nothing of it is counted.
    pub lasts: Span,
}

/// What a settlement has done to a limit.
#[derive(Clone, Debug)]
pub enum Movement {
    /// It has passed a share of it.
    Share(Passage),
    /// Its policy now counts these units beyond the limit.
    Beyond(Arc<Policy>, u64),
}

/// A correction that may pass the limit of its policy, or a share of it.
#[derive(Debug)]
pub(super) struct Watch {
    policy: Arc<Policy>,
    key: Key,
    limit: u64,
    capacity: u64,
    /// The units that are added.
    more: u64,
}

impl Watch {
    /// A watch on a correction of a policy with this limit. None if nothing can be passed.
    pub(super) fn new(
        policy: &Arc<Policy>,
        limit: u64,
        correction: &Correction<'_>,
    ) -> Option<Self> {
        if !is_watched(policy) {
            return None;
        }
        let Op::Settle { reserved, actual, .. } = correction.op else { return None };
        let Correction { charge, source, .. } = correction;
        (actual > reserved && *source == Source::Store).then(|| Self {
            policy: Arc::clone(policy),
            key: Key { counter: policy.counter, ..charge.key },
            limit,
            capacity: charge.algorithm.capacity(),
            more: actual.saturating_sub(reserved),
        })
    }

    /// What the correction has done, of which the store tells this.
    pub(super) fn movements(self, moved: Moved) -> impl Iterator<Item = Movement> {
        let [left, _] = moved.remaining;
        let excess = self.more.saturating_sub(left);
        let beyond = (excess > 0).then(|| Movement::Beyond(Arc::clone(&self.policy), excess));
        self.passage(moved, excess).map(Movement::Share).into_iter().chain(beyond)
    }

    /// The share that is passed. The store does not tell the `excess` beyond the limit.
    fn passage(self, moved: Moved, excess: u64) -> Option<Passage> {
        let Self { policy, key, limit, capacity, .. } = self;
        let counts = moved.remaining.map(|remaining| capacity.saturating_sub(remaining));
        let share = policy.warn.as_deref()?.passed(counts, limit)?;
        let [_, used] = counts;
        let used = used.saturating_add(excess);
        Some(Passage { policy, key, share, used, limit, lasts: moved.reset_after })
    }
}

/// Whether the settlements of a policy may do something that is told.
pub(super) fn is_watched(policy: &Policy) -> bool {
    policy.warn.is_some() || matches!(policy.cost, Cost::Metered { .. })
}
