//! Decisions on the memory store.

mod elastic;
mod endings;
mod holding;
mod model;
mod open;
mod passages;
mod penalty;
mod requests;
mod soft;

use std::sync::Arc;

use super::claim::{Claim, ClaimList};
use super::*;
use crate::algorithm::{Algorithm, FixedWindow, Quota, Retry, Verdict};
use crate::digest::{Key, Principal};
use crate::policy::{Cost, KeyExpr, LimitChoice, Mode, Policy};
use crate::store::{Answer, MemoryStore, Source, Store};
use crate::time::{Span, Timestamp};

pub(super) fn fixed(limit: u64, window: Span) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, window).unwrap()))
}

/// A policy that counts in fixed windows, with one counter for all clients.
pub(super) fn policy(name: &str, limit: u64, window: Span) -> Policy {
    Policy::new(name, KeyExpr::Global, fixed(limit, window))
}

/// The same policy as routes contain it.
pub(super) fn shared(name: &str, limit: u64, window: Span) -> Arc<Policy> {
    Arc::new(policy(name, limit, window))
}

/// The ruling on a verdict for a policy without a second limit.
pub(super) fn report(policy: &Arc<Policy>, verdict: Verdict, cost: u64) -> Report<&Arc<Policy>> {
    let ruling = if verdict.admitted { Ruling::Admitted } else { Ruling::Refused };
    let used = policy.algorithm.capacity() - verdict.remaining.min(policy.algorithm.capacity());
    let window = policy.algorithm.window();
    let source = Source::Store;
    let at = None;
    let owner = None;
    let client = Principal::from_bits(1);
    let choice = LimitChoice::Own;
    let length = window;
    Report {
        policy,
        client,
        ruling,
        verdict,
        source,
        at,
        used,
        cost,
        window,
        length,
        choice,
        owner,
        ignores_limit: false,
    }
}

/// A limiter and policies, each with one client.
struct Gate {
    limiter: RateLimiter,
    policies: Vec<Arc<Policy>>,
    room: Headroom,
}

impl Gate {
    fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        Self {
            limiter: RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(100)))),
            policies: policies.into_iter().map(Arc::new).collect(),
            room: Headroom::default(),
        }
    }

    /// One claim for each policy, as for a request without fields. `costs` replace the
    /// policies' own costs.
    fn claims(&self, costs: &[u64]) -> ClaimList<&Arc<Policy>> {
        let claim = |(n, policy): (u8, _)| {
            let policy: &Arc<Policy> = policy;
            let own = match policy.cost {
                Cost::Fixed(units) | Cost::Metered { reserve: units, .. } => units,
                Cost::Field { .. } | Cost::Body { .. } | Cost::Calls => 1,
            };
            let cost = costs.get(usize::from(n)).copied().unwrap_or(own);
            let key = Key { principal: Principal::from_bits(n.into()), counter: policy.counter };
            Claim::known(policy, key, LimitChoice::Own, cost)
        };
        (0..).zip(&self.policies).map(claim).collect()
    }

    async fn decide(&self, us: u64) -> Decision<&Arc<Policy>> {
        self.decide_at_costs(&[], us).await
    }

    async fn decide_at_costs(&self, costs: &[u64], us: u64) -> Decision<&Arc<Policy>> {
        let list = self.claims(costs);
        let lacking = Lacking::new();
        let mut claims = Claims { list, lacking, settles: false };
        self.limiter.judge().judge(&mut claims, self.room, Timestamp::from_micros(us)).await
    }

    fn end(&self, lease: Lease, ending: &Ending<'_>) {
        self.limiter.end(&lease, ending, Timestamp::from_micros(1));
    }

    /// The remaining units of each policy.
    async fn remaining(&self) -> Vec<u64> {
        let costs = vec![0; self.policies.len()];
        remaining(&self.decide_at_costs(&costs, 1).await)
    }
}

fn remaining(decision: &Decision<&Arc<Policy>>) -> Vec<u64> {
    decision.reports.iter().map(|report| report.verdict.remaining).collect()
}

fn outcomes(decision: &Decision<&Arc<Policy>>) -> Vec<&'static str> {
    decision.reports.iter().map(Report::outcome).collect()
}

/// The wait of a refused client.
fn wait(decision: &Decision<&Arc<Policy>>) -> Span {
    match decision.outcome {
        Outcome::Refuse(Retry::After(wait)) => wait,
        ref outcome => panic!("{outcome:?}"),
    }
}

fn is_admitted(decision: &Decision<&Arc<Policy>>) -> bool {
    matches!(decision.outcome, Outcome::Admit)
}

const DAY: Span = Span::DAY;

#[tokio::test]
async fn a_refused_request_consumes_nothing_of_any_policy() {
    let gate = Gate::new([policy("roomy", 3, DAY), policy("tight", 1, Span::SECOND)]);
    let admitted = gate.decide(500_000).await;
    assert!(is_admitted(&admitted) && admitted.lease.is_empty());
    assert_eq!(remaining(&admitted), [2, 0]);
    for _ in 0..3 {
        let refused = gate.decide(500_000).await;
        assert_eq!(wait(&refused), Span::from_millis(500));
        assert_eq!(remaining(&refused), [2, 0]);
        assert_eq!(refused.binding, Some(1));
        assert_eq!(outcomes(&refused), ["admitted", "refused"]);
    }
}

#[tokio::test]
async fn a_request_of_cost_zero_consumes_nothing_and_is_never_refused() {
    let gate = Gate::new([policy("p", 1, DAY)]);
    assert!(is_admitted(&gate.decide(0).await));
    assert!(is_admitted(&gate.decide_at_costs(&[0], 0).await));
    assert!(!is_admitted(&gate.decide(0).await));
}

#[tokio::test]
async fn a_soft_policy_admits_and_marks_requests_up_to_its_soft_limit() {
    let soft = Policy { soft: Some(fixed(12, DAY)), ..policy("soft", 10, DAY) };
    let gate = Gate::new([soft, policy("other", 12, DAY)]);
    let costs = |units| [units, units];
    for (cost, left, used) in [(9, 1, 9), (1, 0, 10)] {
        let within = gate.decide_at_costs(&costs(cost), 0).await;
        assert_eq!((within.reports[0].verdict.remaining, within.reports[0].used), (left, used));
        assert!(!within.is_soft());
    }
    let over = gate.decide(0).await;
    assert!(is_admitted(&over) && over.is_soft());
    assert_eq!(outcomes(&over), ["soft", "admitted"]);
    let numbers = over.reports[0];
    assert_eq!((numbers.verdict.limit, numbers.verdict.remaining, numbers.used), (10, 0, 11));
    // A request of cost zero is never beyond a limit.
    assert!(!gate.decide_at_costs(&[0, 0], 0).await.is_soft());
    assert!(!is_admitted(&gate.decide_at_costs(&costs(2), 0).await));
    assert!(gate.decide(0).await.is_soft());
    let refused = gate.decide(0).await;
    assert_eq!((wait(&refused), refused.is_soft()), (DAY, false));
}

#[tokio::test]
async fn a_policy_in_shadow_counts_what_fits_and_refuses_no_request() {
    let shadow = Policy { mode: Mode::Shadow, ..policy("shadow", 2, DAY) };
    let gate = Gate::new([shadow, policy("enforced", 4, DAY)]);
    for (left, outcome) in
        [(1, "admitted"), (0, "admitted"), (0, "shadow_refused"), (0, "shadow_refused")]
    {
        let decision = gate.decide(0).await;
        assert!(is_admitted(&decision));
        assert_eq!(decision.binding, Some(1));
        assert_eq!((outcomes(&decision)[0], remaining(&decision)[0]), (outcome, left));
    }
    assert_eq!(outcomes(&gate.decide(0).await), ["shadow_refused", "refused"]);
}

#[tokio::test]
async fn a_report_gives_the_reason_in_one_line() {
    let gate = Gate::new([policy("p", 10, Span::from_secs(60))]);
    let lines = async |cost| gate.decide_at_costs(&[cost], 0).await.reports[0].to_string();
    assert_eq!(lines(8).await, "p: admitted, 8 used of 10, costs 8");
    assert_eq!(lines(3).await, "p: refused, 8 used of 10, costs 3, fits in 1m");
    assert_eq!(lines(11).await, "p: refused, 8 used of 10, costs 11, fits never");
}
