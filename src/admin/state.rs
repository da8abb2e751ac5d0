//! What the admin listener keeps between calls.

use tokio::sync::Semaphore;
use tollgate_core::time::Clock;

use super::audit::AuditLog;
use super::candidates::CandidateCounts;
use super::events::Events;
use super::node::Node;
use super::status::Status;

/// What the admin listener keeps between calls.
#[derive(Debug)]
pub struct AdminState {
    pub node: Node,
    pub clock: Clock,
    pub audit: AuditLog,
    pub status: Status,
    pub events: Events,
    pub candidates: CandidateCounts,
    /// Checks of configurations that run, of which there is one at a time.
    pub checks: Semaphore,
}
