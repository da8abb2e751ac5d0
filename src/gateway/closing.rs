//! What ends with a request: its settlement, and then its record, which says what was
//! settled.

use super::record::record_settlement;
use crate::engine::Settlement;
use crate::telemetry::Recording;

/// What ends with a request. Dropping it settles the request and completes its record.
#[derive(Debug)]
pub struct Closing {
    /// What must be settled, if anything.
    pub settlement: Option<Box<Settlement>>,
    /// The record, if there are readers.
    pub recording: Option<Recording>,
}

impl Closing {
    /// Nothing.
    pub const NOTHING: Self = Self { settlement: None, recording: None };
}

impl Drop for Closing {
    fn drop(&mut self) {
        let Some(settlement) = self.settlement.take() else { return };
        match &mut self.recording {
            Some(recording) => record_settlement(&mut recording.record, &settlement.settle()),
            None => drop(settlement),
        }
    }
}
