//! The limit of a single key.

pub use crate::api_keys::Override;

/// How the limits of single keys were found, since the worker has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// A known limit of the key alone.
    pub hit: u64,
    /// It was known that the key has no limit of its own.
    pub negative: u64,
    /// The request waited for the answer.
    pub asked: u64,
    /// The answer did not come in time, and the last known limit was used.
    pub late: u64,
}
