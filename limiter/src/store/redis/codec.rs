//! What the script is asked, and what its answer means.
//!
//! The script says yes or no and writes; we explain. Its answer holds the time
//! and the fields as they were before, and from these the
//! [`Algorithm`](crate::algorithm::Algorithm) itself
//! computes every number a client is told. So Redis and memory cannot disagree
//! on numbers. Should they ever disagree on yes or no, the answer is refused as
//! [`Garbage`].
//!
//! Whatever bytes an answer has, reading it neither panics nor invents a time.

mod answer;
mod body;
#[cfg(test)]
pub(super) mod tests;
mod wire;

pub use answer::{Answered, Finding, Garbage, decode};
pub use body::Encoder;

use smallvec::SmallVec;

pub(super) use super::ask::lies_apart;
pub use super::ask::{Ask, Asked, Lease};

/// The order in which a body asks: fields as they first come, with all that is
/// asked of one together, by counter. So whatever the order of a route's policies
/// is, states are asked for in the order in which they lie.
fn order(asked: &[Asked<'_>]) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..asked.len()).collect();
    let place = |index: usize| {
        let first = asked.iter().position(|other| asked[index].lies_with(other));
        (first, asked[index].key.counter.stored())
    };
    order.sort_by_key(|&index| place(index));
    order
}
