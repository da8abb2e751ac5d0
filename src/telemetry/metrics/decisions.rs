//! What a worker counts of its decisions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate_core::algorithm::Retry;
use tollgate_core::decision::{Decision, Outcome, Report, Ruling, Uncountable};
use tollgate_core::policy::{LimitChoice, LimitOwner, Mode, Policy};
use tollgate_core::store::{Source, Store};
use tollgate_core::time::monotonic;

use super::cache::Cache;
use super::cell::{Counter, Histogram};
use super::families::{
    DECISION_DURATION, DECISIONS, DECISIONS_BY_SOURCE, HELD, IGNORED_LIMITS, REFUSED_REQUESTS,
    SHADOW_DISAGREEMENTS, UTILISATION, WAIT_TOLD,
};
use super::worker::WorkerMetrics;

/// One of this many decisions is measured where measuring would be dear.
const SAMPLED: u8 = 16;

/// What one worker counts of its decisions under one configuration. Policies are found by
/// their addresses, which stay the same as long as the configuration does.
#[derive(Debug)]
pub struct DecisionMetrics {
    worker: Rc<WorkerMetrics>,
    outcomes: RefCell<Cache<Counter>>,
    sources: RefCell<Cache<Counter>>,
    ignored: RefCell<Cache<Counter>>,
    utilisation: RefCell<Cache<Histogram>>,
    waits: RefCell<Cache<Histogram>>,
    refused: Counter,
    turn: Turn,
}

/// An outcome of a policy that has no report.
#[derive(Clone, Copy, Debug)]
enum Unreported {
    Exempt,
    LackingKey,
    Unpriced,
    UnfitLimit,
    Unverifiable,
    Ambiguous,
}

impl Unreported {
    const fn name(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::LackingKey => "lacking_key",
            Self::Unpriced => "model_unpriced",
            Self::UnfitLimit => "key_limit_unfit",
            Self::Unverifiable => "unverifiable",
            Self::Ambiguous => "ambiguous",
        }
    }
}

impl DecisionMetrics {
    pub fn new(worker: &Rc<WorkerMetrics>, policies: usize) -> Self {
        Self {
            worker: Rc::clone(worker),
            outcomes: RefCell::new(Cache::new(policies.saturating_mul(4))),
            sources: RefCell::new(Cache::new(policies)),
            ignored: RefCell::new(Cache::new(policies)),
            utilisation: RefCell::new(Cache::new(policies)),
            waits: RefCell::new(Cache::new(policies)),
            refused: worker.counter(&REFUSED_REQUESTS, &[]),
            turn: Turn::default(),
        }
    }

    /// Counts the decision of `policies`.
    pub fn count(&self, policies: &[Arc<Policy>], decision: &Decision<&Arc<Policy>>) {
        if let Outcome::Denied(_) = decision.outcome {
            // An access list denies the request before its policies are asked.
            return;
        }
        if !matches!(decision.outcome, Outcome::Admit) {
            self.refused.increment();
        }
        let is_sampled = self.turn.is_next();
        for report in &decision.reports {
            self.count_report(report);
            if is_sampled {
                self.measure_use(report);
            }
            if report.ignores_limit {
                self.count_ignored(report.policy);
            }
            if report.policy.mode == Mode::Shadow {
                self.compare(report, decision);
            }
        }
        match decision.outcome {
            Outcome::Deny(policy) | Outcome::Unauthorized(policy, _) => {
                return self.count_unreported(policy, Unreported::LackingKey);
            }
            Outcome::Uncountable(policy, why) => {
                let outcome = match why {
                    Uncountable::Model => Unreported::Unpriced,
                    Uncountable::KeyLimit => Unreported::UnfitLimit,
                };
                return self.count_unreported(policy, outcome);
            }
            Outcome::Unverifiable(policy, _) => {
                return self.count_unreported(policy, Unreported::Unverifiable);
            }
            Outcome::Ambiguous(policy) => {
                return self.count_unreported(policy, Unreported::Ambiguous);
            }
            Outcome::Refuse(retry) => self.measure_wait(decision, retry),
            Outcome::Admit if !decision.delay.is_zero() => self.measure_delay(decision),
            // Policies that were not asked are not exempt.
            Outcome::Unauthenticated(_) => return,
            Outcome::Admit | Outcome::Unavailable(_) | Outcome::Denied(_) => {}
        }
        for policy in &decision.lacking {
            self.count_unreported(policy, Unreported::LackingKey);
        }
        if decision.reports.len() + decision.lacking.len() < policies.len() {
            self.count_exempt(policies, decision);
        }
    }

    fn count_report(&self, report: &Report<&Arc<Policy>>) {
        let policy = report.policy;
        let plan = match report.choice {
            _ if report.owner == Some(LimitOwner::Override) => 0,
            // Codes that no plan has.
            _ if report.owner == Some(LimitOwner::Key) => u64::MAX >> 8,
            _ if report.owner == Some(LimitOwner::Team) => (u64::MAX >> 8) - 1,
            LimitChoice::Own => 1,
            LimitChoice::Unlimited => 2,
            LimitChoice::Plan(index) => u64::try_from(index).unwrap_or(u64::MAX >> 9) + 3,
        };
        let key = (address(policy), plan << 8 | u64::from(report.ruling as u8));
        let mut outcomes = self.outcomes.borrow_mut();
        let counter = outcomes.get(key, || {
            let labels = [&*policy.name, plan_name(report), report.outcome()];
            self.worker.counter(&DECISIONS, &labels)
        });
        counter.increment();
        let key = (address(policy), u64::from(report.source as u8));
        let mut sources = self.sources.borrow_mut();
        let counter = sources.get(key, || {
            let source = match report.source {
                Source::Store => "store",
                Source::Local => "local",
                Source::Policy => "none",
                Source::Unasked => "unasked",
            };
            self.worker.counter(&DECISIONS_BY_SOURCE, &[&policy.name, source])
        });
        counter.increment();
    }

    /// Counts that a limit of the client was ignored.
    #[cold]
    fn count_ignored(&self, policy: &Arc<Policy>) {
        let mut ignored = self.ignored.borrow_mut();
        let counter = ignored
            .get((address(policy), 0), || self.worker.counter(&IGNORED_LIMITS, &[&policy.name]));
        counter.increment();
    }

    /// Counts a policy without a report. It has no plan, whose code is 0 here.
    fn count_unreported(&self, policy: &Arc<Policy>, outcome: Unreported) {
        let key = (address(policy), u64::MAX - u64::from(outcome as u8));
        let mut outcomes = self.outcomes.borrow_mut();
        let counter = outcomes
            .get(key, || self.worker.counter(&DECISIONS, &[&policy.name, "", outcome.name()]));
        counter.increment();
    }

    /// Counts the policies that did not judge.
    fn count_exempt(&self, policies: &[Arc<Policy>], decision: &Decision<&Arc<Policy>>) {
        for policy in policies {
            // Preflights may be judged by another policy with the same name.
            let is_reported = decision.reports.iter().any(|it| it.policy.name == policy.name);
            let is_lacking = decision.lacking.iter().any(|it| it.name == policy.name);
            if !is_reported && !is_lacking {
                self.count_unreported(policy, Unreported::Exempt);
            }
        }
    }

    fn measure_use(&self, report: &Report<&Arc<Policy>>) {
        let limit = report.verdict.limit;
        if limit == 0 || !matches!(report.source, Source::Store | Source::Local) {
            return;
        }
        let policy = report.policy;
        let mut utilisation = self.utilisation.borrow_mut();
        let histogram = utilisation
            .get((address(policy), 0), || self.worker.histogram(&UTILISATION, &[&policy.name]));
        histogram.observe(report.used.saturating_mul(1000) / limit);
    }

    /// Measures the wait that the client is told, which is that of the binding policy.
    fn measure_wait(&self, decision: &Decision<&Arc<Policy>>, retry: Retry) {
        if let (Some(report), Retry::After(wait)) = (decision.binding(), retry) {
            let mut waits = self.waits.borrow_mut();
            let histogram = waits.get((address(report.policy), 0), || {
                self.worker.histogram(&WAIT_TOLD, &[&report.policy.name])
            });
            histogram.observe(wait.as_micros());
        }
    }

    /// Measures the delay of a request, which is that of the policy with the longest one.
    fn measure_delay(&self, decision: &Decision<&Arc<Policy>>) {
        let delaying = decision.reports.iter().filter(|it| it.policy.mode == Mode::Enforce);
        if let Some(report) = delaying.max_by_key(|report| report.verdict.delay) {
            let mut waits = self.waits.borrow_mut();
            let histogram = waits.get((address(report.policy), 1), || {
                self.worker.histogram(&HELD, &[&report.policy.name])
            });
            histogram.observe(decision.delay.as_micros());
        }
    }

    /// Counts a disagreement between a policy in shadow mode and those that decide.
    fn compare(&self, report: &Report<&Arc<Policy>>, decision: &Decision<&Arc<Policy>>) {
        if matches!(report.ruling, Ruling::FailedOpen | Ruling::FailedClosed) {
            return;
        }
        let live = match (decision.outcome, report.is_shadow_refused()) {
            (Outcome::Admit, true) => "admitted",
            (Outcome::Refuse(_), false) => "refused",
            _ => return,
        };
        // A disagreement is rare enough for the slow way.
        self.worker.counter(&SHADOW_DISAGREEMENTS, &[&report.policy.name, live]).increment();
    }
}

/// The plan whose limit was applied: empty for the policy's own.
pub fn plan_name<'p>(report: &Report<&'p Arc<Policy>>) -> &'p str {
    match (report.choice, &report.policy.plans) {
        _ if report.owner == Some(LimitOwner::Override) => "_override",
        _ if report.owner == Some(LimitOwner::Key) => "_key",
        _ if report.owner == Some(LimitOwner::Team) => "_team",
        (LimitChoice::Plan(index), Some(plans)) => {
            plans.limits.get(index).map_or("", |(name, _)| name)
        }
        _ => "",
    }
}

fn address(policy: &Arc<Policy>) -> usize {
    Arc::as_ptr(policy).addr()
}

/// Chooses one of [`SAMPLED`].
#[derive(Debug, Default)]
struct Turn(Cell<u8>);

impl Turn {
    /// The first is chosen, so that a metric appears with the first request.
    fn is_next(&self) -> bool {
        let turn = self.0.get();
        self.0.set((turn + 1) % SAMPLED);
        turn == 0
    }
}

/// Measures how long decisions of one store take.
#[derive(Debug)]
pub struct DecisionTimer {
    histogram: Histogram,
    turn: Turn,
    /// A decision that asks a server takes so long that each of them is measured.
    measures_all: bool,
}

impl DecisionTimer {
    /// For decisions of `store`.
    pub fn new(worker: &WorkerMetrics, store: &Store) -> Self {
        let (name, measures_all) = match store {
            Store::Memory(_) => ("memory", false),
            Store::Remote(_) => ("redis", true),
        };
        let histogram = worker.histogram(&DECISION_DURATION, &[name]);
        Self { histogram, turn: Turn::default(), measures_all }
    }

    /// A decision begins now. Returns the time if it is measured.
    ///
    /// A method that takes the future of a decision would double the size of that future.
    pub fn begin(&self) -> Option<Instant> {
        (self.measures_all || self.turn.is_next()).then(monotonic)
    }

    /// The decision has ended that began at this time, if it is measured. Returns how long
    /// it took, in microseconds, if each decision is measured.
    pub fn end(&self, begun: Option<Instant>) -> Option<u64> {
        let begun = begun?;
        let nanos = monotonic().duration_since(begun).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.histogram.observe(nanos);
        self.measures_all.then_some(nanos / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::ByOutcome;

    #[test]
    fn outcomes_without_a_report_are_in_the_figures_of_policies() {
        use Unreported::{Ambiguous, Exempt, LackingKey, UnfitLimit, Unpriced, Unverifiable};
        for it in [Exempt, LackingKey, Unpriced, UnfitLimit, Unverifiable, Ambiguous] {
            assert!(ByOutcome::NAMES.contains(&it.name()), "{it:?}");
        }
    }

    #[test]
    fn one_of_sixteen_is_chosen_beginning_with_the_first() {
        let turn = Turn::default();
        let chosen: Vec<usize> = (0..40).filter(|_| turn.is_next()).collect();
        assert_eq!(chosen, [0, 16, 32]);
    }
}
