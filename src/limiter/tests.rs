//! Decisions over plain policies and keys, on the memory store.

use super::*;
use crate::algorithm::{Algorithm, FixedWindow, Quota, Retry};
use crate::digest::Key;
use crate::rules::KeyExpr;
use crate::store::MemoryStore;
use crate::time::Span;

/// A policy that counts in fixed windows, for whomever.
pub(super) fn policy(name: &str, limit: u64, window: Span) -> Policy {
    let algorithm = Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, window).unwrap()));
    Policy::new(name, KeyExpr::Global, algorithm)
}

fn limiter() -> RateLimiter {
    RateLimiter::new(Store::Memory(MemoryStore::new(100)))
}

fn keyed(policies: &[Policy]) -> impl Iterator<Item = (&Policy, KeyFor)> {
    (0..).zip(policies).map(|(n, policy)| (policy, KeyFor::Key(Key::from_bytes([n; 16]))))
}

#[tokio::test]
async fn a_refused_request_consumes_nothing_of_any_policy() {
    let limiter = limiter();
    let policies = [policy("roomy", 3, Span::DAY), policy("tight", 1, Span::SECOND)];
    let now = Timestamp::from_micros(500_000);
    let remaining = |decision: &Decision<'_>| {
        decision.reports.iter().map(|report| report.verdict.remaining).collect::<Vec<_>>()
    };
    let admitted = limiter.judge(keyed(&policies), now).await;
    assert!(matches!(admitted.outcome, Outcome::Admit));
    assert_eq!(remaining(&admitted), [2, 0]);
    for _ in 0..3 {
        let refused = limiter.judge(keyed(&policies), now).await;
        let half_a_second = Retry::After(Span::from_millis(500));
        assert!(matches!(refused.outcome, Outcome::Refuse(wait) if wait == half_a_second));
        assert_eq!(remaining(&refused), [2, 0]);
        assert_eq!(refused.binding, Some(1));
    }
}

#[tokio::test]
async fn an_exempting_policy_gives_no_report() {
    let limiter = limiter();
    let policies = [policy("a", 1, Span::SECOND), policy("b", 1, Span::SECOND)];
    let keys = [KeyFor::Exempt, KeyFor::Key(Key::from_bytes([1; 16]))];
    let decision = limiter.judge(policies.iter().zip(keys), Timestamp::default()).await;
    assert_eq!(decision.reports.len(), 1);
    assert_eq!(&*decision.binding().unwrap().policy.name, "b");
    let exempt = policies.iter().map(|policy| (policy, KeyFor::Exempt));
    let decision = limiter.judge(exempt, Timestamp::default()).await;
    assert!(matches!(decision.outcome, Outcome::Admit) && decision.reports.is_empty());
}

#[tokio::test]
async fn a_missing_key_denies_and_counts_nothing() {
    let limiter = limiter();
    let policies = [policy("a", 1, Span::SECOND), policy("b", 1, Span::SECOND)];
    let keys = [KeyFor::Key(Key::from_bytes([0; 16])), KeyFor::Denied];
    let decision = limiter.judge(policies.iter().zip(keys), Timestamp::default()).await;
    assert!(matches!(decision.outcome, Outcome::Deny(policy) if &*policy.name == "b"));
    let decision = limiter.judge(keyed(&policies), Timestamp::default()).await;
    assert!(matches!(decision.outcome, Outcome::Admit));
}
