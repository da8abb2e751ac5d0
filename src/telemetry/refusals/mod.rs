//! The last refusals, for operators who ask why a request was refused.
//!
//! Each worker keeps, for each policy, the last 256 requests that the policy refused, and at
//! most 8 of one key. None is replaced in its first tenth of a second: of a flood, only some
//! are kept. Memory is bounded by the number of policies and workers. An admitted
//! request costs nothing. A refusal takes the lock of its ring, which no other worker takes,
//! and which a reader holds for a copy of references.

mod places;
mod refusal;
mod ring;
mod rings;
#[cfg(test)]
mod tests;
mod worker;

pub use refusal::{Refusal, Refused};
pub use rings::RefusalRings;
pub use worker::WorkerRefusals;
