//! The limit of a single key.

use crate::time::Span;

/// The limit that replaces that of the policy for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// No limit at all.
    Unlimited,
    /// Another limit.
    Limited {
        /// The limit.
        units: u64,
        /// Its window, if it differs from that of the policy.
        window: Option<Span>,
    },
}

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
