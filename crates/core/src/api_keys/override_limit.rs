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
