//! STUB

use super::Quota;

/// STUB
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    quota: Quota,
}

impl FixedWindow {
    /// STUB
    pub const fn new(quota: Quota) -> Self {
        Self { quota }
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }
}
