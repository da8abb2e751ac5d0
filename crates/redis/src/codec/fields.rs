//! The fields in which counters are stored, and the order of operations in a body.

use smallvec::SmallVec;
use tollgate_core::algorithm::Algorithm;

use crate::shared::Asked;

/// The largest limit of a log that is stored with the other states of its principal. It takes
/// about 100 bytes. A longer log has a key of its own.
const SHORT_LOG: u64 = 16;

/// Whether a counter has a key of its own, outside of the bucket.
pub(crate) fn lies_apart(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::SlidingLog(_)) && algorithm.limit() > SHORT_LOG
}

impl Asked<'_> {
    /// Whether both counters are stored in one field.
    pub(crate) fn lies_with(&self, other: &Self) -> bool {
        self.key.principal == other.key.principal
            && lies_apart(self.algorithm) == lies_apart(other.algorithm)
    }
}

/// The order of the operations in a body: by field, in the order in which fields first occur,
/// then by counter. So for any order of a route's policies, the operations have the order of
/// the stored states.
pub(super) fn order(asked: &[Asked<'_>]) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..asked.len()).collect();
    let place = |index: usize| {
        let first = asked.iter().position(|other| asked[index].lies_with(other));
        (first, asked[index].key.counter.stored())
    };
    order.sort_by_key(|&index| place(index));
    order
}
