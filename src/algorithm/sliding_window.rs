//! STUB

use super::Quota;

/// STUB
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    quota: Quota,
}

impl SlidingWindow {
    /// STUB
    pub const fn new(quota: Quota) -> Self {
        Self { quota }
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }
}
