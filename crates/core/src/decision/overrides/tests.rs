//! The limits of single keys in decisions, with a real file and real policies.

use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use super::super::{Claims, Headroom, KnownClaim, Outcome, RateLimiter, Skip};
use super::*;
use crate::algorithm::{Algorithm, Quota, SlidingWindow};
use crate::digest::{Principal, SharedSecret};
use crate::policy::{
    ClientSettings, Clients, KeyExpr, KeyTexts, LimitChoice, LimitOwner, Overridable,
    OverrideLimit, Plan, Plans, Policy,
};
use crate::request::RequestView;
use crate::store::overrides::{OverridesFile, SharedOverrides};
use crate::store::{MemoryStore, Store};
use crate::time::{Clock, Span};

const MINUTE: Span = Span::from_secs(60);

fn window(limit: u64) -> Algorithm {
    Algorithm::SlidingWindow(SlidingWindow::new(Quota::new(limit, MINUTE).unwrap()))
}

/// A policy by `X-Client`. Clients with `X-Plan: free` have no limit.
fn policy(limit: u64) -> Policy {
    let from = KeyExpr::Header("x-plan".parse().unwrap());
    let plans = Plans { from, limits: vec![("free".into(), Plan::Unlimited)] };
    Policy {
        plans: Some(plans),
        overrides: Some(Overridable::new("each", 0)),
        ..Policy::new("each", KeyExpr::Header("x-client".parse().unwrap()), window(limit))
    }
}

/// A limiter, and its file.
struct Gate {
    clients: Clients,
    limiter: RateLimiter,
    file: OverridesFile,
    policy: Arc<Policy>,
}

impl Gate {
    fn new(directory: &Path, policy: Policy) -> Self {
        let file = OverridesFile::open(&directory.join("overrides.redb")).unwrap();
        let secret = Arc::new(SharedSecret::new(file.secret()));
        let store = Store::Memory(Arc::new(MemoryStore::new(100)));
        let shared = SharedOverrides::in_file(file.clone()).unwrap();
        let overrides = shared.open(&store);
        let clients = Clients::new(ClientSettings::default(), policy.keys(), secret);
        let limiter = RateLimiter::new(store).with_overrides(overrides);
        Self { clients, limiter, file, policy: Arc::new(policy) }
    }

    fn principal(&self, client: &str) -> Principal {
        let settings = ClientSettings::default();
        let secret = self.file.secret();
        let texts = KeyTexts { client: &settings, secret, is_route: &|_| false };
        texts.principal(&self.policy.key, client).unwrap()
    }

    fn put(&self, client: &str, what: Option<Override>) {
        let principal = self.principal(client);
        let counter = self.policy.overrides.unwrap().kept_as;
        self.file.put(Key { principal, counter }, what).unwrap();
    }

    /// Decides when the overrides are known. Returns the outcome and the report in words.
    async fn decide(&self, client: &'static str, plan: &'static str, at_ms: u64) -> (bool, String) {
        let mut headers = HeaderMap::new();
        headers.insert("x-client", HeaderValue::from_static(client));
        headers.insert("x-plan", HeaderValue::from_static(plan));
        let request = RequestView::sample("a.test", "/", &headers);
        let now = Clock::System.now().plus(Span::from_millis(at_ms));
        let subject = self.clients.subject(&request, None, now);
        let policies = std::slice::from_ref(&self.policy);
        let decision = self.limiter.decide(policies, &subject, Headroom::default(), now).await;
        let report = decision.reports.first().map(ToString::to_string).unwrap_or_default();
        (matches!(decision.outcome, Outcome::Admit), report)
    }
}

/// The limits are trusted for this long without an update. The last day is another window.
const LATER_MS: u64 = 86_400_000;

fn limit(units: u64, window: Option<Span>) -> Option<Override> {
    Some(Override::Limited { units, window })
}

fn run(test: impl AsyncFn(&Path)) {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(test(directory.path()));
}

/// Decides until `holds` returns true: the thread that reads the file may not have opened
/// it yet.
async fn until(
    gate: &Gate,
    client: &'static str,
    plan: &'static str,
    holds: impl Fn(&str) -> bool,
) {
    for attempt in 0..1000 {
        let (_, report) = gate.decide(client, plan, attempt * LATER_MS).await;
        if holds(&report) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the condition never held for {client}");
}

#[test]
fn an_override_precedes_the_plan_and_the_policys_own_limit() {
    run(async |directory| {
        let gate = Gate::new(directory, policy(3));
        gate.put("ann", limit(7, None));
        gate.put("bob", limit(5, Some(Span::from_secs(3600))));
        gate.put("eve", Some(Override::Unlimited));
        until(&gate, "ann", "free", |it| it.contains("used of 7 (override), costs 1")).await;
        until(&gate, "bob", "free", |it| it.contains("used of 5 (override)")).await;
        until(&gate, "eve", "", str::is_empty).await;
        assert!(gate.decide("zoe", "", 0).await.1.contains("1 used of 3, costs 1"));
        assert!(gate.decide("zoe", "free", 0).await.1.is_empty());
    });
}

/// The policy's own limit was once charged, which is refused for ever under a lower one.
#[test]
fn at_most_the_limit_of_the_key_is_charged_for_an_estimate() {
    run(async |directory| {
        let gate = Gate::new(directory, policy(100));
        gate.put("ann", limit(10, None));
        until(&gate, "ann", "", |it| it.contains("of 10 (override)")).await;
        for (client, cost) in [("ann", 10), ("bob", 100)] {
            let policy = &gate.policy;
            let client = gate.principal(client);
            let limit = LimitChoice::Own;
            let claims =
                Claims::known([KnownClaim { policy, client, limit, instead: None, cost: 1 }]);
            let mut claims = claims.costing(5000).as_estimates();
            let now = Clock::System.now().plus(Span::from_millis(2000 * LATER_MS));
            let decided = gate.limiter.decide_claims(&mut claims, Headroom::default(), now).await;
            let report = &decided.reports[0];
            assert!(matches!(decided.outcome, Outcome::Admit), "{report}");
            assert_eq!(report.cost, cost);
        }
    });
}

#[test]
fn a_raised_limit_keeps_the_counter_and_admits_at_once() {
    run(async |directory| {
        let gate = Gate::new(directory, policy(3));
        gate.put("ann", limit(4, None));
        until(&gate, "ann", "", |it| it.contains("of 4 (override)")).await;
        let late = 2000 * LATER_MS;
        while gate.decide("ann", "", late).await.0 {}
        gate.put("ann", limit(6, None));
        let mut admitted = 0;
        while gate.decide("ann", "", late + 5000).await.0 {
            admitted += 1;
        }
        assert_eq!(admitted, 2);
    });
}

#[test]
fn an_override_that_the_policy_cannot_count_is_ignored() {
    run(async |directory| {
        let gate = Gate::new(directory, policy(3));
        gate.put("ann", limit(u64::MAX, None));
        gate.put("bob", limit(7, None));
        until(&gate, "bob", "", |it| it.contains("of 7 (override)")).await;
        let told = "used of 3 (the client's own limit is ignored), costs 1";
        assert!(gate.decide("ann", "", 0).await.1.contains(told));
        assert!(gate.decide("zoe", "", 0).await.1.contains("used of 3, costs 1"));
    });
}

/// The policy's own limit could be far above the one of the API key.
#[test]
fn the_limit_of_an_api_key_holds_if_the_override_cannot_be_counted() {
    run(async |directory| {
        let gate = Gate::new(directory, policy(3));
        gate.put("ann", limit(u64::MAX, None));
        gate.put("bob", limit(7, None));
        until(&gate, "bob", "", |it| it.contains("of 7 (override)")).await;
        let instead = gate.policy.override_limit(2, None).unwrap();
        let instead = OverrideLimit { owner: LimitOwner::Key, ..instead };
        let claim = KnownClaim {
            policy: &gate.policy,
            client: gate.principal("ann"),
            limit: LimitChoice::Own,
            instead: Some(instead),
            cost: 1,
        };
        let decision = gate.limiter.count_known([claim], Clock::System.now()).await;
        let report = &decision.reports[0];
        assert!(report.to_string().contains("used of 2 (key)"), "{report}");
        assert!(report.ignores_limit);
    });
}

#[test]
fn a_peek_tells_which_limit_holds_and_why_there_is_none() {
    run(async |directory| {
        let gate = Gate::new(directory, policy(3));
        gate.put("ann", limit(7, None));
        gate.put("bob", Some(Override::Unlimited));
        until(&gate, "ann", "free", |it| it.contains("of 7 (override)")).await;
        until(&gate, "bob", "", str::is_empty).await;
        gate.decide("eve", "", 0).await;
        let peek = async |client: &'static str, plan: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-client", HeaderValue::from_static(client));
            headers.insert("x-plan", HeaderValue::from_static(plan));
            let request = RequestView::sample("a.test", "/", &headers);
            let now = Clock::System.now();
            let subject = gate.clients.subject(&request, None, now);
            let policies = std::slice::from_ref(&gate.policy);
            let peeked = gate.limiter.peek(policies, &subject, Headroom::default(), now).await;
            let reports = peeked.decision.reports.iter();
            let limits =
                reports.map(|it| (it.verdict.limit, it.owner.is_some())).collect::<Vec<_>>();
            (limits, peeked.skipped.into_iter().map(|(_, why)| why).collect::<Vec<_>>())
        };
        assert_eq!(peek("ann", "free").await, (vec![(7, true)], vec![]));
        assert_eq!(peek("bob", "").await, (vec![], vec![Skip::Overridden]));
        assert_eq!(peek("eve", "").await, (vec![(3, false)], vec![]));
        assert_eq!(peek("eve", "free").await, (vec![], vec![Skip::Unlimited]));
    });
}
