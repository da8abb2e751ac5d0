//! From a request and the policies of its route to claims.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::digest::{Secret, SharedSecret};
use crate::message::TokenFault;
use crate::request::RequestView;
use crate::rules::{
    ApiKeySettings, ClientSettings, Exempt, ForwardedHeader, MissingKey, PathMatch, Plan, Plans,
    Route, Rules,
};

const X: HeaderName = HeaderName::from_static("x");

fn rules(policies: impl IntoIterator<Item = Policy>) -> Rules {
    let route = Route {
        name: "r".into(),
        hosts: vec![],
        path: "/*".parse().unwrap(),
        path_match: PathMatch::default(),
        methods: vec![],
        headers: vec![],
        policies: policies.into_iter().map(Arc::new).collect(),
        affinity: None,
    };
    let client = ClientSettings {
        trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
        forwarded_header: ForwardedHeader::XForwardedFor,
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        api_key: ApiKeySettings { headers: vec![], bearer: false, query: None },
        user: None,
        geo: vec![],
    };
    Rules::new(vec![route], client, Arc::new(SharedSecret::new(Secret::from_bytes([3; 16]))))
}

/// The decision on a request with this value of the field `x`.
async fn decide<'r>(limiter: &RateLimiter, rules: &'r Rules, x: Option<&str>) -> Decision<'r> {
    let headers: HeaderMap = x.iter().map(|x| (X, HeaderValue::from_str(x).unwrap())).collect();
    let request = RequestView {
        method: &Method::GET,
        host: Cow::Borrowed("a.test"),
        path: Cow::Borrowed("/"),
        query: None,
        headers: &headers,
        peer: [192, 0, 2, 1].into(),
        has_content: false,
        may_forward: true,
        tls_subject: None,
    };
    let matched = rules.select(&request).unwrap();
    let subject = rules.subject(&request, matched, Timestamp::default());
    limiter.decide(&subject, Room::default(), Timestamp::default()).await
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
    let rules = rules([Policy { exempt, ..policy("a", 1, DAY) }, policy("b", 1, DAY)]);
    let decision = decide(&limiter(), &rules, None).await;
    assert_eq!(outcomes(&decision), ["admitted"]);
    assert_eq!(&*decision.binding().unwrap().policy.name, "b");
}

#[tokio::test]
async fn a_missing_key_denies_and_counts_nothing() {
    let rules = rules([policy("a", 1, DAY), by_x(MissingKey::Deny)]);
    let limiter = limiter();
    let decision = decide(&limiter, &rules, None).await;
    assert!(matches!(decision.outcome, Outcome::Deny(policy) if &*policy.name == "by-x"));
    assert!(is_admitted(&decide(&limiter, &rules, Some("1")).await));
}

#[tokio::test]
async fn a_policy_without_a_limit_gives_no_report_and_touches_no_counter() {
    let unlimited = Policy::unlimited("p", KeyExpr::Header(X));
    let rules = rules([Policy { missing_key: MissingKey::Deny, ..unlimited }]);
    let limiter = limiter();
    for _ in 0..3 {
        let decision = decide(&limiter, &rules, Some("1")).await;
        assert!(is_admitted(&decision) && decision.reports.is_empty());
    }
    assert!(matches!(decide(&limiter, &rules, None).await.outcome, Outcome::Deny(_)));
    let Store::Memory(memory) = limiter.store() else { panic!("the store is memory") };
    assert_eq!(memory.live_keys(Timestamp::default()), 0);
}

#[tokio::test]
async fn a_client_without_a_token_is_told_so_and_in_shadow_it_is_reported() {
    let of = |mode| Policy { mode, ..by_x(MissingKey::Unauthorized) };
    let enforced = rules([of(Mode::Enforce)]);
    let limiter = limiter();
    let decision = decide(&limiter, &enforced, None).await;
    let Outcome::Unauthorized(policy, fault) = decision.outcome else { panic!("{decision:?}") };
    assert_eq!((&*policy.name, fault), ("by-x", TokenFault::Missing));
    let shadow = rules([of(Mode::Shadow)]);
    let decision = decide(&limiter, &shadow, None).await;
    assert!(is_admitted(&decision));
    assert!(decision.shadow_refused().map(|policy| &*policy.name).eq(["by-x"]));
}

#[tokio::test]
async fn in_shadow_a_missing_key_denies_nobody_and_is_reported() {
    let rules = rules([Policy { mode: Mode::Shadow, ..by_x(MissingKey::Deny) }]);
    let limiter = limiter();
    let shadow_refused = async |x| {
        let decision = decide(&limiter, &rules, x).await;
        assert!(is_admitted(&decision));
        decision.shadow_refused().map(|policy| policy.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(shadow_refused(None).await, ["by-x"]);
    assert_eq!(shadow_refused(Some("1")).await, [""; 0]);
    assert_eq!(shadow_refused(Some("1")).await, ["by-x"]);
}

#[tokio::test]
async fn who_has_an_unlimited_plan_is_not_judged() {
    let limits = vec![("internal".into(), Plan::Unlimited)];
    let plans = Some(Plans { from: KeyExpr::Header(X), limits });
    let rules = rules([Policy { plans, ..policy("p", 1, DAY) }]);
    let limiter = limiter();
    assert_eq!(outcomes(&decide(&limiter, &rules, None).await), ["admitted"]);
    let decision = decide(&limiter, &rules, Some("internal")).await;
    assert!(is_admitted(&decision) && decision.reports.is_empty());
    assert_eq!(outcomes(&decide(&limiter, &rules, None).await), ["refused"]);
}

#[tokio::test]
async fn another_plan_has_another_limit_and_the_same_count() {
    let pro = Plan::Limited { algorithm: fixed(3, DAY), soft: Some(fixed(4, DAY)) };
    let plans = Some(Plans { from: KeyExpr::Header(X), limits: vec![("pro".into(), pro)] });
    let rules = rules([Policy { plans, ..policy("p", 2, DAY) }]);
    let limiter = limiter();
    let judged = async |x| {
        let decision = decide(&limiter, &rules, x).await;
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
    let field = Cost::Field { name: X, default: 1, max: 9 };
    let rules = rules([
        Policy { cost: field, ..policy("field", 10, DAY) },
        Policy { cost: Cost::Fixed(4), ..policy("fixed", 10, DAY) },
    ]);
    let decision = decide(&limiter(), &rules, Some("7")).await;
    assert_eq!(remaining(&decision), [3, 6]);
    assert!(decision.reports.iter().map(|report| report.cost).eq([7, 4]));
}
