//! STUB

use super::Quota;

/// STUB
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    quota: Quota,
    burst: u64,
}

impl TokenBucket {
    /// STUB
    pub const fn new(quota: Quota, burst: u64) -> Result<Self, super::QuotaError> {
        Ok(Self { quota, burst })
    }

    pub(super) const fn quota(&self) -> Quota {
        self.quota
    }
}
