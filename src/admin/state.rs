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
pub(super) struct AdminState {
    pub(super) node: Node,
    pub(super) clock: Clock,
    pub(super) audit: AuditLog,
    pub(super) status: Status,
    pub(super) events: Events,
    pub(super) candidates: CandidateCounts,
    /// Checks of configurations that run, of which there is one at a time.
    pub(super) checks: Semaphore,
}
