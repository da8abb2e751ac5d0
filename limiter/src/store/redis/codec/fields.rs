//! The fields in which counters lie, and the order in which a body asks for them.

use smallvec::SmallVec;

use crate::algorithm::Algorithm;
use crate::store::shared::Asked;

/// The largest limit of a log that lies among the other states of its principal.
/// What it holds has about 100 bytes. A longer one has a key of its own.
const SHORT_LOG: u64 = 16;

/// Whether a counter lies in a key of its own, beside the bucket.
pub(in crate::store) fn lies_apart(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::SlidingLog(_)) && algorithm.limit() > SHORT_LOG
}

impl Asked<'_> {
    /// Whether both lie in one field.
    pub(in crate::store) fn lies_with(&self, other: &Self) -> bool {
        self.key.principal == other.key.principal
            && lies_apart(self.algorithm) == lies_apart(other.algorithm)
    }
}

/// The order in which a body asks: fields as they first come, with all that is
/// asked of one together, by counter. So whatever the order of a route's policies
/// is, states are asked for in the order in which they lie.
pub(super) fn order(asked: &[Asked<'_>]) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..asked.len()).collect();
    let place = |index: usize| {
        let first = asked.iter().position(|other| asked[index].lies_with(other));
        (first, asked[index].key.counter.stored())
    };
    order.sort_by_key(|&index| place(index));
    order
}
