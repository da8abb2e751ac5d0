//! The bodies of requests that are read before they are forwarded: which ones, how much of them,
//! and their content codings.

mod coding;
mod decoder;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use tollgate_core::policy::BodyWords;

pub use coding::Coding;
pub use decoder::{Decoded, Decoder};

/// The usual bound of a body that is read: 1 MiB.
pub const USUAL_READ_BYTES: u64 = 1024 * 1024;

/// What a route reads of the bodies of its requests.
#[derive(Clone, Debug)]
pub struct ReadBodySettings {
    /// What is searched for.
    pub words: BodyWords,
    /// The most bytes that are held, and the most that they may be without their coding.
    pub max: u64,
    /// What becomes of a larger body.
    pub over: Over,
}

/// What becomes of a body that is larger than the route reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// The request is refused.
    #[default]
    Deny,
    /// It has no values, and is forwarded as it comes.
    Missing,
}
