//! How a table is wanted.

use tollgate_core::time::Timestamp;

/// How a table is wanted.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::top) struct Asked<'a> {
    pub(in crate::cli::top) order: usize,
    pub(in crate::cli::top) filter: &'a str,
    pub(in crate::cli::top) policy: Option<&'a str>,
    pub(in crate::cli::top) now: Timestamp,
}

impl Asked<'_> {
    /// Whether this policy is shown.
    pub(super) fn shows(&self, policy: &str) -> bool {
        self.policy.is_none_or(|only| only == policy)
    }
}
