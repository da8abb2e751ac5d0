//! Where a call goes.

/// Where calls are sent. Keys with one destination can be charged in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The index of the server. 0 in a cluster, where the slot decides.
    pub(super) server: u16,
    /// The index of the connection to it. 0 in a cluster.
    pub(super) connection: u16,
    /// 0 if the server has no slots.
    pub(super) slot: u16,
}
