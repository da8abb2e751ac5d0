//! How keys were found.

/// How keys were found, since the directory of a worker was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyLookups {
    /// The key was known.
    pub hit: u64,
    /// It was known that there is no such key.
    pub unknown: u64,
    /// The request waited for the answer of the store.
    pub asked: u64,
    /// The store did not answer, and the key was trusted as it was last known.
    pub stale: u64,
    /// The store did not answer, and the key was not known.
    pub away: u64,
}
