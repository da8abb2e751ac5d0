//! How a table is wanted.

use tollgate_core::time::Timestamp;

/// How a table is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) order: usize,
    pub(crate) filter: &'a str,
    pub(crate) policy: Option<&'a str>,
    pub(crate) now: Timestamp,
}

impl Asked<'_> {
    /// Whether this policy is shown.
    pub(super) fn shows(&self, policy: &str) -> bool {
        self.policy.is_none_or(|only| only == policy)
    }
}
