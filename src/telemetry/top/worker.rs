//! One worker's part of the lists: what it has counted in the minute that is in progress.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use tollgate_limiter::decision::{Decision, Outcome};
use tollgate_limiter::policy::{Policy, Subject};
use tollgate_limiter::time::Timestamp;

use super::{Sketches, TopHistory};

/// Microseconds of a minute.
const MINUTE_US: u64 = 60_000_000;

/// What one worker has counted in the current minute.
#[derive(Debug)]
pub(crate) struct WorkerTop {
    history: Arc<TopHistory>,
    /// The minute that is counted, since the epoch.
    minute: Cell<u64>,
    policies: RefCell<HashMap<Box<str>, Sketches>>,
}

impl WorkerTop {
    /// A worker that hands its counts over to `history`.
    pub(crate) fn new(history: &Arc<TopHistory>) -> Self {
        history.join();
        Self { history: Arc::clone(history), minute: Cell::new(0), policies: RefCell::default() }
    }

    /// Counts the request of `subject` under all policies that have judged it. `now` is the
    /// wall clock's time.
    pub(crate) fn observe(
        &self,
        decision: &Decision<&Arc<Policy>>,
        subject: &Subject<'_, '_>,
        now: Timestamp,
    ) {
        self.turn(now);
        let is_admitted = matches!(decision.outcome, Outcome::Admit);
        let mut policies = self.policies.borrow_mut();
        for report in &decision.reports {
            let policy: &Arc<Policy> = report.policy;
            let sketches = match policies.get_mut(&*policy.name) {
                Some(sketches) => sketches,
                None => policies.entry((&*policy.name).into()).or_default(),
            };
            let sketch = if is_admitted { &mut sketches.admitted } else { &mut sketches.refused };
            sketch.observe(report.client.bits(), || subject.shown_key(policy).into());
        }
    }

    /// Hands over what was counted if another minute has begun. Must be called regularly.
    pub(crate) fn turn(&self, now: Timestamp) {
        let minute = now.as_micros() / MINUTE_US;
        let counted = self.minute.replace(minute);
        if counted != minute {
            self.history.add(counted, std::mem::take(&mut self.policies.borrow_mut()));
        }
    }
}

impl Drop for WorkerTop {
    fn drop(&mut self) {
        self.history.add(self.minute.get(), self.policies.take());
        self.history.leave();
    }
}
