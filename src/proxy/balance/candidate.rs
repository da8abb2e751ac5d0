//! An endpoint for the balancer.

/// An endpoint for the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) struct Candidate {
    /// Equal on every gateway and after every restart, so that keys stay with it.
    pub(in crate::proxy) identity: u64,
    /// Its share relative to the others. With 0 it gets no requests.
    pub(in crate::proxy) weight: u32,
}
