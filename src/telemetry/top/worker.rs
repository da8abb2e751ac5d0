//! One worker's part of the lists: what it has counted in the minute that is in progress.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tollgate_core::api_keys::KeyId;
use tollgate_core::decision::{Decision, Outcome, Report};
use tollgate_core::policy::{LimitChoice, Policy, Subject};
use tollgate_core::store::Source;
use tollgate_core::time::Timestamp;

use super::{ClientText, Counted, TopHistory};
use crate::telemetry::metrics::plan_name;

/// Between two looks at the minute in progress, in microseconds.
const SHOWN_EVERY_US: u64 = 1_000_000;
/// Microseconds of a minute.
const MINUTE_US: u64 = 60_000_000;

/// What one worker has counted in the current minute.
#[derive(Debug)]
pub struct WorkerTop {
    history: Arc<TopHistory>,
    /// The number of this worker.
    worker: usize,
    /// The minute that is counted, since the epoch.
    minute: Cell<u64>,
    /// When the minute in progress was last shown, in microseconds.
    shown_us: Cell<u64>,
    /// The minute in which [`Self::housekeep`] was called last.
    housekept: Cell<u64>,
    policies: RefCell<Counted>,
}

impl WorkerTop {
    /// A worker that hands its counts over to `history`.
    pub fn new(history: &Arc<TopHistory>) -> Self {
        Self {
            worker: history.join(),
            history: Arc::clone(history),
            minute: Cell::new(0),
            shown_us: Cell::new(0),
            housekept: Cell::new(0),
            policies: RefCell::default(),
        }
    }

    /// Counts the request of `subject` under all policies that have judged it. `now` is the
    /// wall clock's time.
    pub fn observe(
        &self,
        decision: &Decision<&Arc<Policy>>,
        subject: &Subject<'_, '_>,
        now: Timestamp,
    ) {
        let api_key = subject.known_key().map(|known| known.key.id);
        let text = |report: &Report<&Arc<Policy>>| ClientText {
            whole: self.history.keeps_whole().then(|| subject.whole_key(report.policy).into()),
            api_key,
            ..masked(report, subject.shown_key(report.policy))
        };
        self.count(decision, api_key, text, now);
    }

    /// The same for a question, which has no subject. `shown` returns the masked text of a
    /// client; the whole one is not kept.
    pub fn observe_as(
        &self,
        decision: &Decision<&Arc<Policy>>,
        shown: impl Fn(&Report<&Arc<Policy>>) -> String,
        now: Timestamp,
    ) {
        self.count(decision, None, |report| masked(report, shown(report)), now);
    }

    fn count(
        &self,
        decision: &Decision<&Arc<Policy>>,
        api_key: Option<KeyId>,
        text: impl Fn(&Report<&Arc<Policy>>) -> ClientText,
        now: Timestamp,
    ) {
        self.turn(now);
        let is_admitted = matches!(decision.outcome, Outcome::Admit);
        let mut policies = self.policies.borrow_mut();
        for report in &decision.reports {
            let sketches = policies.of(&report.policy.name);
            let sketch = if is_admitted { &mut sketches.admitted } else { &mut sketches.refused };
            let largest = sketch.observe(report.client.bits(), used(report), || text(report));
            let Some(text) = largest else { continue };
            // The plan of a client can change, and its API key if it is counted by something else.
            if text.plan.as_deref() != chosen_plan(report) {
                text.plan = chosen_plan(report).map(Into::into);
            }
            text.api_key = api_key;
        }
    }

    /// Hands over what was counted if another minute has begun, and shows the minute in
    /// progress if the lists are read. Must be called regularly.
    pub fn housekeep(&self, now: Timestamp) {
        self.turn(now);
        // Times of requests may lie in the past, so only this time tells what is the future.
        if self.housekept.replace(self.minute.get()) != self.minute.get() {
            self.history.forget_future(now);
        }
        let now_us = now.as_micros();
        if now_us.abs_diff(self.shown_us.get()) >= SHOWN_EVERY_US && self.history.is_read(now) {
            self.shown_us.set(now_us);
            self.history.show(self.worker, self.policies.borrow().clone());
        }
    }

    fn turn(&self, now: Timestamp) {
        let minute = now.as_micros() / MINUTE_US;
        let counted = self.minute.replace(minute);
        if counted != minute {
            self.history.add(self.worker, counted, self.policies.take());
        }
    }
}

/// The plan whose limit holds for the client. None: another limit does.
pub fn chosen_plan<'p>(report: &Report<&'p Arc<Policy>>) -> Option<&'p str> {
    let is_plan = matches!(report.choice, LimitChoice::Plan(_)) && report.owner.is_none();
    is_plan.then(|| plan_name(report))
}

/// The share of its limit that the client has used, in thousandths. None: it has no limit, or
/// no counter was asked.
fn used(report: &Report<&Arc<Policy>>) -> Option<u16> {
    if !matches!(report.source, Source::Store | Source::Local) {
        return None;
    }
    let share = report.used.saturating_mul(1000).checked_div(report.verdict.limit)?;
    Some(u16::try_from(share).unwrap_or(u16::MAX))
}

/// The text of a client whose whole key is not kept.
fn masked(report: &Report<&Arc<Policy>>, shown: String) -> ClientText {
    ClientText { plan: chosen_plan(report).map(Into::into), ..shown.into() }
}

impl Drop for WorkerTop {
    fn drop(&mut self) {
        self.history.add(self.worker, self.minute.get(), self.policies.take());
        self.history.leave();
    }
}
