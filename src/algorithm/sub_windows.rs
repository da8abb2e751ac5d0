//! STUB

use super::Quota;

/// STUB
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubWindows {
    quota: Quota,
    buckets: u32,
}

impl SubWindows {
    /// STUB
    pub const fn new(quota: Quota, buckets: u32) -> Result<Self, super::QuotaError> {
        Ok(Self { quota, buckets })
    }

    /// Sub-windows in the window.
    pub const fn buckets(&self) -> u32 {
        self.buckets
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }
}
