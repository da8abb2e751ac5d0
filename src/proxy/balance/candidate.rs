//! An endpoint for the balancer.

/// An endpoint for the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Equal on every gateway and after every restart, so that keys stay with it.
    pub identity: u64,
    /// Its share relative to the others. With 0 it gets no requests.
    pub weight: u32,
}
