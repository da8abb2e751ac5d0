//! What a link has measured of its calls.

use std::collections::BTreeMap;

use tollgate_core::store::{CallStatistics, OutageCause, ServerState};

use super::Link;
use crate::breaker::Position;

/// Statistics of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The server.
    pub server: String,
    /// The position of its breaker.
    pub position: Position,
    /// Whether the server is not used: since its breaker has opened, no decision was answered.
    pub is_away: bool,
    /// How often the breaker has opened.
    pub times_opened: u64,
    /// The number of batches with a reply.
    pub answered: u64,
    /// The number of batches that failed.
    pub failed: u64,
    /// Calls that were not sent, because those that wait take too much memory.
    pub overloads: u64,
    /// Calls that failed while the server decided others, by their causes.
    pub call_errors: BTreeMap<OutageCause, u64>,
    /// What was measured of batches.
    pub calls: CallStatistics,
    /// The clock of the server minus this node's, if it is known, in microseconds.
    pub clock_offset_us: Option<i64>,
}

impl Link {
    /// The statistics of the link.
    pub(in super::super) fn health(&self) -> Health {
        let state = self.shared.state.borrow();
        Health {
            server: self.name(),
            position: state.breaker.position(),
            is_away: state.server_use.is_given_up(),
            times_opened: state.breaker.times_opened(),
            answered: state.answered,
            failed: state.failed,
            overloads: state.queue.overloads(),
            call_errors: state.call_errors.counts(),
            calls: state.calls.clone(),
            clock_offset_us: self.shared.clock_offset_us.get(),
        }
    }
}

impl From<Health> for ServerState {
    fn from(health: Health) -> Self {
        let Health { server, is_away, answered, failed, overloads, .. } = health;
        let Health { call_errors, calls, clock_offset_us, .. } = health;
        Self { server, is_away, answered, failed, overloads, call_errors, calls, clock_offset_us }
    }
}
