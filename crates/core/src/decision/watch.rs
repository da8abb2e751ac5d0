//! What is known of a share of a limit that is passed, and of a settlement that may pass one.

use std::sync::Arc;

use crate::algorithm::Op;
use crate::digest::Key;
use crate::policy::Policy;
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

/// A correction that may pass a share of the limit of its policy.
#[derive(Debug)]
pub(super) struct Watch {
    policy: Arc<Policy>,
    key: Key,
    limit: u64,
    capacity: u64,
}

impl Watch {
    /// A watch on a correction of a policy with this limit. None if nothing can be passed.
    pub(super) fn new(
        policy: &Arc<Policy>,
        limit: u64,
        correction: &Correction<'_>,
    ) -> Option<Self> {
        policy.warn.as_ref()?;
        let Op::Settle { reserved, actual, .. } = correction.op else { return None };
        let Correction { charge, source, .. } = correction;
        (actual > reserved && *source == Source::Store).then(|| Self {
            policy: Arc::clone(policy),
            key: Key { counter: policy.counter, ..charge.key },
            limit,
            capacity: charge.algorithm.capacity(),
        })
    }

    /// The share that the correction has passed.
    pub(super) fn passage(self, moved: Moved) -> Option<Passage> {
        let Self { policy, key, limit, capacity } = self;
        let counts = moved.remaining.map(|remaining| capacity.saturating_sub(remaining));
        let share = policy.warn.as_deref()?.passed(counts, limit)?;
        let [_, used] = counts;
        Some(Passage { policy, key, share, used, limit, lasts: moved.reset_after })
    }
}
