//! Derives claims from a request and the policies of its route.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::digest::{Secret, SharedSecret};
use crate::policy::TokenFault;
use crate::policy::{ClientSettings, Clients, Exempt, MissingKey, Plan, Plans};
use crate::request::RequestView;

const X: HeaderName = HeaderName::from_static("x");

fn policies(policies: impl IntoIterator<Item = Policy>) -> Vec<Arc<Policy>> {
    policies.into_iter().map(Arc::new).collect()
}

fn clients() -> Clients {
    let settings = ClientSettings {
        trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
        ..ClientSettings::default()
    };
    Clients::new(settings, [], Arc::new(SharedSecret::new(Secret::from_bytes([3; 16]))))
}

/// The decision on a request with this value of the field `x`.
async fn decide<'r>(
    limiter: &RateLimiter,
    policies: &'r [Arc<Policy>],
    x: Option<&str>,
) -> Decision<&'r Arc<Policy>> {
    let headers: HeaderMap = x.iter().map(|x| (X, HeaderValue::from_str(x).unwrap())).collect();
    let request = RequestView::sample("a.test", "/", &headers);
    let clients = clients();
    let subject = clients.subject(&request, None, Timestamp::default());
    limiter.decide(policies, &subject, Headroom::default(), Timestamp::default()).await
}

fn limiter() -> RateLimiter {
    RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(100))))
}

fn by_x(missing_key: MissingKey) -> Policy {
    Policy { key: KeyExpr::Header(X), missing_key, ..policy("by-x", 1, DAY) }
}

#[tokio::test]
async fn an_exempting_policy_gives_no_report() {
    let exempt = Exempt { methods: vec![Method::GET], ..Exempt::default() };
    let policies = policies([Policy { exempt, ..policy("a", 1, DAY) }, policy("b", 1, DAY)]);
    let decision = decide(&limiter(), &policies, None).await;
    assert_eq!(outcomes(&decision), ["admitted"]);
    assert_eq!(&*decision.binding().unwrap().policy.name, "b");
}

#[tokio::test]
async fn a_missing_key_denies_and_counts_nothing() {
    let policies = policies([policy("a", 1, DAY), by_x(MissingKey::Deny)]);
    let limiter = limiter();
    let decision = decide(&limiter, &policies, None).await;
    assert!(matches!(decision.outcome, Outcome::Deny(policy) if &*policy.name == "by-x"));
    assert!(is_admitted(&decide(&limiter, &policies, Some("1")).await));
}

#[tokio::test]
async fn a_policy_without_a_limit_gives_no_report_and_uses_no_counter() {
    let unlimited = Policy::unlimited("p", KeyExpr::Header(X));
    let policies = policies([Policy { missing_key: MissingKey::Deny, ..unlimited }]);
    let limiter = limiter();
    for _ in 0..3 {
        let decision = decide(&limiter, &policies, Some("1")).await;
        assert!(is_admitted(&decision) && decision.reports.is_empty());
    }
    assert!(matches!(decide(&limiter, &policies, None).await.outcome, Outcome::Deny(_)));
    let Store::Memory(memory) = limiter.store() else { panic!("the store is memory") };
    assert_eq!(memory.live_keys(Timestamp::default()), 0);
}

#[tokio::test]
async fn a_missing_token_is_refused_and_in_shadow_it_is_reported() {
    let of = |mode| Policy { mode, ..by_x(MissingKey::Unauthorized) };
    let enforced = policies([of(Mode::Enforce)]);
    let limiter = limiter();
    let decision = decide(&limiter, &enforced, None).await;
    let Outcome::Unauthorized(policy, fault) = decision.outcome else { panic!("{decision:?}") };
    assert_eq!((&*policy.name, fault), ("by-x", TokenFault::Missing));
    let shadow = policies([of(Mode::Shadow)]);
    let decision = decide(&limiter, &shadow, None).await;
    assert!(is_admitted(&decision));
    assert!(decision.shadow_refused().map(|policy| &*policy.name).eq(["by-x"]));
}

#[tokio::test]
async fn in_shadow_a_missing_key_denies_no_request_and_is_reported() {
    let policies = policies([Policy { mode: Mode::Shadow, ..by_x(MissingKey::Deny) }]);
    let limiter = limiter();
    let shadow_refused = async |x| {
        let decision = decide(&limiter, &policies, x).await;
        assert!(is_admitted(&decision));
        decision.shadow_refused().map(|policy| policy.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(shadow_refused(None).await, ["by-x"]);
    assert_eq!(shadow_refused(Some("1")).await, [""; 0]);
    assert_eq!(shadow_refused(Some("1")).await, ["by-x"]);
}

#[tokio::test]
async fn a_client_with_an_unlimited_plan_is_not_judged() {
    let limits = vec![("internal".into(), Plan::Unlimited)];
    let plans = Some(Plans { from: KeyExpr::Header(X), limits });
    let policies = policies([Policy { plans, ..policy("p", 1, DAY) }]);
    let limiter = limiter();
    assert_eq!(outcomes(&decide(&limiter, &policies, None).await), ["admitted"]);
    let decision = decide(&limiter, &policies, Some("internal")).await;
    assert!(is_admitted(&decision) && decision.reports.is_empty());
    assert_eq!(outcomes(&decide(&limiter, &policies, None).await), ["refused"]);
}

#[tokio::test]
async fn another_plan_has_another_limit_and_the_same_count() {
    let pro = Plan::Limited { algorithm: fixed(3, DAY), soft: Some(fixed(4, DAY)) };
    let plans = Some(Plans { from: KeyExpr::Header(X), limits: vec![("pro".into(), pro)] });
    let policies = policies([Policy { plans, ..policy("p", 2, DAY) }]);
    let limiter = limiter();
    let judged = async |x| {
        let decision = decide(&limiter, &policies, x).await;
        let Verdict { limit, remaining, .. } = decision.reports[0].verdict;
        (decision.reports[0].outcome(), limit, remaining)
    };
    assert_eq!(judged(None).await, ("admitted", 2, 1));
    assert_eq!(judged(Some("pro")).await, ("admitted", 3, 1));
    assert_eq!(judged(None).await, ("refused", 2, 0));
    assert_eq!(judged(Some("pro")).await, ("admitted", 3, 0));
    assert_eq!(judged(Some("pro")).await, ("soft", 3, 0));
    assert_eq!(judged(Some("pro")).await, ("refused", 3, 0));
}

#[tokio::test]
async fn each_policy_has_its_own_cost() {
    let field = Cost::Field { name: X, default: 1, max: Some(9) };
    let policies = policies([
        Policy { cost: field, ..policy("field", 10, DAY) },
        Policy { cost: Cost::Fixed(4), ..policy("fixed", 10, DAY) },
    ]);
    let decision = decide(&limiter(), &policies, Some("7")).await;
    assert_eq!(remaining(&decision), [3, 6]);
    assert!(decision.reports.iter().map(|report| report.cost).eq([7, 4]));
}

/// The policy's own limit was the highest cost, also for clients with a higher one: they paid less
/// than their requests cost.
#[tokio::test]
async fn a_cost_by_header_is_at_most_the_limit_of_the_client() {
    let plan = |units| Plan::Limited { algorithm: fixed(units, DAY), soft: None };
    let limits = vec![("500".into(), plan(1000)), ("50".into(), plan(20))];
    let plans = Some(Plans { from: KeyExpr::Header(X), limits });
    let cost = |max| Cost::Field { name: X, default: 1, max };
    for (max, named, paid, left) in [
        (None, "500", 500, 500),
        (None, "50", 20, 0),
        (None, "70", 10, 0),
        (None, "7", 7, 3),
        (Some(9), "500", 9, 991),
    ] {
        let plans = plans.clone();
        let policies = policies([Policy { plans, cost: cost(max), ..policy("p", 10, DAY) }]);
        let decision = decide(&limiter(), &policies, Some(named)).await;
        assert!(is_admitted(&decision), "{named}");
        assert_eq!((decision.reports[0].cost, remaining(&decision)), (paid, vec![left]), "{named}");
    }
}
