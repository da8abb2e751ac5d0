//! Refusals before a request is complete.

use futures_util::FutureExt as _;
use http::HeaderMap;

use super::*;
use crate::algorithm::Ban;
use crate::decision::tests::policy;
use crate::digest::{Secret, SharedSecret};
use crate::policy::{ClientSettings, Clients, Elastic, KeyExpr, MissingKey, Mode, Penalty};
use crate::request::RequestView;
use crate::store::{MemoryStore, Store};
use crate::time::Span;

const MINUTE: Span = Span::from_secs(60);

fn limiter() -> RateLimiter {
    RateLimiter::new(Store::Memory(Arc::new(MemoryStore::new(100))))
}

/// Calls `question` with a request without fields.
fn ask<T>(question: impl FnOnce(&Subject<'_, '_>) -> T) -> T {
    let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
    let clients = Clients::new(ClientSettings::default(), [], secret);
    let headers = HeaderMap::new();
    let request = RequestView::sample("a.test", "/", &headers);
    question(&clients.subject(&request, None, Timestamp::default()))
}

/// Whether the policies refuse a request before it is complete.
fn refuses(limiter: &RateLimiter, policies: &[Arc<Policy>]) -> bool {
    let known = ask(|subject| {
        let known = limiter.refuse_known(policies.iter(), subject, |_| true, Timestamp::default());
        known.now_or_never().expect("memory decides at once")
    });
    known.is_some_and(|decision| !matches!(decision.outcome, Outcome::Admit))
}

fn is_admitted(limiter: &RateLimiter, policies: &[Arc<Policy>]) -> bool {
    let decision = ask(|subject| {
        let now = Timestamp::default();
        limiter.decide(policies, subject, Headroom::default(), now).now_or_never()
    });
    matches!(decision.expect("memory decides at once").outcome, Outcome::Admit)
}

#[test]
fn a_used_up_limit_is_known_and_nothing_is_counted() {
    let limiter = limiter();
    let policies = [Arc::new(policy("a", 2, MINUTE)), Arc::new(policy("b", 9, MINUTE))];
    for _ in 0..5 {
        assert!(!refuses(&limiter, &policies), "nothing is counted");
    }
    assert!(is_admitted(&limiter, &policies) && !refuses(&limiter, &policies));
    assert!(is_admitted(&limiter, &policies));
    assert!(refuses(&limiter, &policies) && refuses(&limiter, &policies[..1]));
    assert!(!refuses(&limiter, &policies[1..]) && !refuses(&limiter, &[]));
}

#[test]
fn a_policy_that_does_not_refuse_is_not_known_to() {
    let limiter = limiter();
    let shadow = Policy { mode: Mode::Shadow, ..policy("a", 1, MINUTE) };
    let beyond = policy("beyond", 1, MINUTE).algorithm;
    let elastic =
        Elastic { beyond, latency_below: Some(Span::SECOND), in_flight_below_percent: None };
    let elastic = Policy { elastic: Some(elastic), ..policy("b", 1, MINUTE) };
    let policies = [Arc::new(shadow), Arc::new(elastic)];
    assert!(is_admitted(&limiter, &policies));
    assert!(!refuses(&limiter, &policies));
    let lacking =
        Policy { key: KeyExpr::User, missing_key: MissingKey::Deny, ..policy("c", 1, MINUTE) };
    assert!(refuses(&limiter, &[Arc::new(lacking)]), "a missing key is known");
}

#[test]
fn such_a_refusal_counts_for_a_penalty() {
    let limiter = limiter();
    let ban = Ban::new(Span::from_secs(600), Span::from_secs(600)).expect("a ban");
    let after = policy("after", 2, MINUTE).algorithm;
    let penalty = Penalty { after, ban: crate::algorithm::Algorithm::Ban(ban), delay: Span::ZERO };
    let policies = [Arc::new(Policy { penalty: Some(penalty), ..policy("a", 1, MINUTE) })];
    assert!(is_admitted(&limiter, &policies));
    assert!(refuses(&limiter, &policies) && refuses(&limiter, &policies));
    let later = Timestamp::from_micros(90_000_000);
    let decision = ask(|subject| {
        let known = limiter.refuse_known(policies.iter(), subject, |_| true, later);
        known.now_or_never().expect("memory decides at once")
    });
    assert!(decision.is_some(), "the client is banned, and its limit is free again");
}

#[test]
fn a_refusal_that_is_not_final_is_known_only_with_another_one() {
    let limiter = limiter();
    let policies = [Arc::new(policy("a", 1, MINUTE)), Arc::new(policy("b", 2, MINUTE))];
    let refusing = || {
        let known = ask(|subject| {
            let is_final = |policy: &Policy| &*policy.name == "b";
            let known =
                limiter.refuse_known(policies.iter(), subject, is_final, Timestamp::default());
            known.now_or_never().expect("memory decides at once")
        });
        known.map(|decision| decision.reports.iter().filter(|it| it.refuses()).count())
    };
    assert!(is_admitted(&limiter, &policies));
    assert_eq!(refusing(), None, "a refuses");
    assert!(is_admitted(&limiter, &policies[1..]));
    assert_eq!(refusing(), Some(2), "both refuse, and both are told");
}
