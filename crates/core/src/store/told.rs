//! What is told of a correction.

use crate::time::Span;

/// How a correction has changed a counter, in one atomic step of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The units that were left before the correction and after it.
    pub remaining: [u64; 2],
    /// The time until the counter is as a new one.
    pub reset_after: Span,
}

/// Is told how a correction has changed its counter.
pub type Told = Box<dyn FnOnce(Moved)>;
