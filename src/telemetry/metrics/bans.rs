//! What a worker counts of the responses to banned clients that are held back.

use std::rc::Rc;

use super::cell::Counter;
use super::families::{HELD_BANS, UNHELD_BANS};
use super::worker::WorkerMetrics;

/// What one worker counts of the responses to banned clients that are held back.
#[derive(Debug)]
pub struct BanMetrics {
    held: Counter,
    not_held: Counter,
}

/// A response that is held back until this value is dropped.
#[derive(Debug)]
pub struct HeldBan<'m>(&'m Counter);

impl BanMetrics {
    /// For this worker.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        let [held, not_held] = [&HELD_BANS, &UNHELD_BANS].map(|family| worker.counter(family, &[]));
        Self { held, not_held }
    }

    /// A response is held back.
    pub fn hold(&self) -> HeldBan<'_> {
        self.held.increment();
        HeldBan(&self.held)
    }

    /// A response is sent at once, because too many are held back.
    pub fn not_held(&self) {
        self.not_held.increment();
    }
}

impl Drop for HeldBan<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}
