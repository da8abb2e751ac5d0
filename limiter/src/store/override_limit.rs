//! The limit of a single key.

use crate::time::Span;

/// What holds for one key in place of its policy's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// No limit at all.
    Unlimited,
    /// Another limit.
    Limited {
        /// The limit.
        units: u64,
        /// Its window, if it has another one than the policy.
        window: Option<Span>,
    },
}
