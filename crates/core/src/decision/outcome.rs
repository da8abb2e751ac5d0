//! Combines several verdicts to one decision. Pure.
//!
//! Every policy must admit the request. A refused request waits for the slowest of the
//! policies that refused it. The response to an admitted request describes the policy that
//! will refuse first. The result does not depend on the order of the policies.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Lease, Report, Reports, Ruling, Uncountable};
use crate::algorithm::Retry;
use crate::policy::{AuthRefusal, Denial, Mode, Policy, TokenFault};
use crate::time::Span;

/// The wait for a client whose request could not be judged. Breakers check with this period
/// whether the store is available again.
pub(super) const RETRY_STORE: Span = Span::SECOND;

/// The wait for a client whose token cannot be verified yet. At first, a set of keys is
/// fetched with this period until it is available.
pub(super) const RETRY_KEYS: Span = Span::SECOND;

/// The result for a request.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<P> {
    /// All policies admit the request, or none judges it.
    Admit,
    /// At least one policy refuses the request. The value is the time until all of them can
    /// admit it.
    Refuse(Retry),
    /// The store is unavailable, and at least one policy refuses requests that cannot be
    /// judged. The value is the time until a retry is useful. Nothing was counted.
    Unavailable(Span),
    /// The request lacks the key that this policy demands. Nothing was counted.
    Deny(P),
    /// This policy cannot say what the request costs or may cost. Nothing was counted.
    Uncountable(P, Uncountable),
    /// The request's bearer token, which this policy demands, cannot be verified yet. The
    /// value is the time until a retry is useful. Nothing was counted.
    Unverifiable(P, Span),
    /// Backends may read different keys, or plans, of this policy in the request. Nothing
    /// was counted.
    Ambiguous(P),
    /// The request lacks the bearer token that this policy demands. Nothing was counted.
    Unauthorized(P, TokenFault),
    /// An access list denies the request. Policies were not asked.
    Denied(Denial),
    /// The request lacks a right credential, which its route demands. Only policies that
    /// count such responses were asked.
    Unauthenticated(AuthRefusal),
}

impl Outcome<&Arc<Policy>> {
    /// The same outcome, which owns its policy.
    pub fn into_owned(self) -> Outcome<Arc<Policy>> {
        match self {
            Self::Admit => Outcome::Admit,
            Self::Refuse(retry) => Outcome::Refuse(retry),
            Self::Unavailable(wait) => Outcome::Unavailable(wait),
            Self::Deny(policy) => Outcome::Deny(Arc::clone(policy)),
            Self::Uncountable(policy, why) => Outcome::Uncountable(Arc::clone(policy), why),
            Self::Unverifiable(policy, wait) => Outcome::Unverifiable(Arc::clone(policy), wait),
            Self::Ambiguous(policy) => Outcome::Ambiguous(Arc::clone(policy)),
            Self::Unauthorized(policy, fault) => Outcome::Unauthorized(Arc::clone(policy), fault),
            Self::Denied(denial) => Outcome::Denied(denial),
            Self::Unauthenticated(refusal) => Outcome::Unauthenticated(refusal),
        }
    }
}

/// Policies that demand a key which a request lacks.
pub type Lacking<P> = SmallVec<[P; 1]>;

/// The decision of all policies of a route on a request. `P` borrows the policies or owns
/// them.
#[derive(Debug)]
pub struct Decision<P> {
    /// The result.
    pub outcome: Outcome<P>,
    /// The delay of the request, if it is admitted.
    pub delay: Span,
    /// The index of the report whose numbers the response contains.
    pub binding: Option<usize>,
    /// All reports.
    pub reports: Reports<P>,
    /// Policies in shadow mode that would have [denied](Outcome::Deny) the request.
    pub lacking: Lacking<P>,
    /// The settlement after the response, if the request is admitted.
    pub lease: Lease,
    /// The share of a limit, in percent, that the request has passed, if a policy reports it.
    pub warned: Option<u8>,
}

/// A decision that owns its policies.
pub type OwnedDecision = Decision<Arc<Policy>>;

impl Decision<&Arc<Policy>> {
    /// The same decision, which owns its policies.
    pub fn into_owned(self) -> OwnedDecision {
        let Self { outcome, delay, binding, reports, lacking, lease, warned } = self;
        Decision {
            outcome: outcome.into_owned(),
            delay,
            binding,
            reports: reports.into_iter().map(Report::into_owned).collect(),
            lacking: lacking.into_iter().map(Arc::clone).collect(),
            lease,
            warned,
        }
    }
}

impl OwnedDecision {
    /// The decision of the policies of this decision, which admits the request, and of those of
    /// `later`. The lease is that of `later`.
    #[must_use]
    pub fn joined(self, later: Self) -> Self {
        let Self { mut reports, mut lacking, .. } = self;
        let is_by_reports = matches!(later.outcome, Outcome::Admit | Outcome::Refuse(_));
        if !is_by_reports {
            return later;
        }
        reports.extend(later.reports);
        lacking.extend(later.lacking);
        let warned = self.warned.max(later.warned);
        Self { warned, ..Self::combine(reports, lacking, later.lease) }
    }
}

impl<P: Borrow<Arc<Policy>>> Decision<P> {
    /// The decision from these reports. Of several waits, the longest one binds. Among
    /// policies that admit the request, the one binds that has room for the fewest further
    /// requests of this cost; in a tie, the one with the longer window, then the lower
    /// limit, then the name. Policies in shadow mode neither refuse nor bind.
    #[inline] // so that all reports are copied once less
    pub(super) fn combine(reports: Reports<P>, lacking: Lacking<P>, lease: Lease) -> Self {
        let told = || reports.iter().enumerate().filter(|(_, report)| report.is_told());
        let refused = told()
            .filter(|(_, report)| report.refuses())
            .max_by_key(|(_, report)| (report.verdict.retry, report.precedence()));
        if let Some((index, report)) = refused {
            let outcome = Outcome::Refuse(report.verdict.retry);
            let delay = Span::ZERO;
            let binding = Some(index);
            return Self { outcome, delay, binding, reports, lacking, lease, warned: None };
        }
        if reports.iter().any(|report| report.ruling == Ruling::FailedClosed && report.refuses()) {
            let outcome = Outcome::Unavailable(RETRY_STORE);
            let delay = Span::ZERO;
            let binding = None;
            return Self { outcome, delay, binding, reports, lacking, lease, warned: None };
        }
        let binding = told()
            .max_by_key(|(_, report)| (Reverse(report.requests_left()), report.precedence()))
            .map(|(index, _)| index);
        let delay = told().map(|(_, report)| report.verdict.delay).max().unwrap_or_default();
        let outcome = Outcome::Admit;
        Self { outcome, delay, binding, reports, lacking, lease, warned: None }
    }

    /// The decision on a request that lacks a key or token, before anything is counted.
    pub fn uncounted(outcome: Outcome<P>) -> Self {
        Self {
            outcome,
            delay: Span::ZERO,
            binding: None,
            reports: Reports::new(),
            lacking: Lacking::new(),
            lease: Lease::default(),
            warned: None,
        }
    }

    /// The report whose numbers the response contains.
    pub fn binding(&self) -> Option<&Report<P>> {
        self.reports.get(self.binding?)
    }

    /// All reports of policies that enforce their limits.
    pub fn enforced(&self) -> impl Iterator<Item = &Report<P>> {
        self.reports.iter().filter(|report| report.policy.borrow().mode == Mode::Enforce)
    }

    /// All reports that the response contains.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Report<P>> {
        self.reports.iter().filter(|report| report.is_told())
    }

    /// All policies that refuse the request.
    pub fn violated(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.reports.iter().filter(|report| report.refuses()).map(|it| it.policy.borrow())
    }

    /// How long the response to the request is held back, because a policy bans its client. Zero if
    /// none does, or the penalty has no delay.
    pub fn ban_delay(&self) -> Span {
        let banning = self.reports.iter().filter(|report| report.bans());
        let penalties = banning.filter_map(|report| report.policy.borrow().penalty.as_ref());
        penalties.map(|penalty| penalty.delay).max().unwrap_or_default()
    }

    /// All policies in shadow mode that would have refused the request.
    pub fn shadow_refused(&self) -> impl Iterator<Item = &Arc<Policy>> {
        let reports = self.reports.iter().filter(|report| report.is_shadow_refused());
        reports.map(|it| it.policy.borrow()).chain(self.lacking.iter().map(P::borrow))
    }

    /// Whether the request is admitted although it is beyond a limit. The upstream and the
    /// client receive a mark (see [`X_RATELIMIT_SOFT`](super::X_RATELIMIT_SOFT)).
    pub fn is_soft(&self) -> bool {
        matches!(self.outcome, Outcome::Admit)
            && self.told().any(|report| report.ruling == Ruling::Soft)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::Verdict;
    use crate::algorithm::testing::cases;
    use crate::decision::tests::{policy, report, shared};
    use crate::time::Span;

    fn verdict(retry: Retry, remaining: u64) -> Verdict {
        let admitted = retry == Retry::Now;
        Verdict {
            admitted,
            limit: 100,
            remaining,
            retry,
            reset_after: Span::SECOND,
            delay: Span::ZERO,
        }
    }

    fn combined<'r>(reports: &[(&'r Arc<Policy>, Verdict, u64)]) -> Decision<&'r Arc<Policy>> {
        let report = |&(policy, verdict, cost)| report(policy, verdict, cost);
        let reports = reports.iter().map(report).collect();
        Decision::combine(reports, Lacking::new(), Lease::default())
    }

    fn binding<'r>(decision: &Decision<&'r Arc<Policy>>) -> &'r str {
        &decision.binding().unwrap().policy.name
    }

    #[test]
    fn the_longest_wait_binds_and_all_refusing_policies_are_named() {
        let [a, b, c] = ["a", "b", "c"].map(|name| shared(name, 100, Span::SECOND));
        let after = |secs| verdict(Retry::After(Span::from_secs(secs)), 0);
        let decision =
            combined(&[(&a, after(2), 1), (&b, verdict(Retry::Now, 0), 1), (&c, after(3), 1)]);
        assert_eq!(binding(&decision), "c");
        assert!(
            matches!(decision.outcome, Outcome::Refuse(Retry::After(wait)) if wait == Span::from_secs(3))
        );
        assert!(decision.violated().map(|policy| &*policy.name).eq(["a", "c"]));
    }

    #[test]
    fn two_decisions_are_one_for_the_client() {
        let [a, b] = ["a", "b"].map(|name| shared(name, 100, Span::SECOND));
        let delayed = |secs| Verdict { delay: Span::from_secs(secs), ..verdict(Retry::Now, 5) };
        let first = || combined(&[(&a, delayed(3), 1)]).into_owned();
        let admitted = first().joined(combined(&[(&b, delayed(2), 1)]).into_owned());
        assert_eq!((admitted.delay, admitted.reports.len()), (Span::from_secs(3), 2));
        let after = verdict(Retry::After(Span::SECOND), 0);
        let refused = first().joined(combined(&[(&b, after, 1)]).into_owned());
        assert!(matches!(refused.outcome, Outcome::Refuse(_)));
        assert_eq!(&*refused.binding().unwrap().policy.name, "b");
        let denied = first().joined(Decision::uncounted(Outcome::Deny(Arc::clone(&b))));
        assert!(matches!(denied.outcome, Outcome::Deny(_)));
    }

    #[test]
    fn a_request_that_one_policy_can_never_admit_is_never_admitted() {
        let [a, b] = ["a", "b"].map(|name| shared(name, 100, Span::SECOND));
        let decision = combined(&[
            (&a, verdict(Retry::Never, 9), 200),
            (&b, verdict(Retry::After(Span::DAY), 0), 200),
        ]);
        assert_eq!(binding(&decision), "a");
        assert!(matches!(decision.outcome, Outcome::Refuse(Retry::Never)));
    }

    #[test]
    fn the_fewest_requests_left_bind_and_then_the_longer_window() {
        let second = shared("second", 100, Span::SECOND);
        let day = shared("day", 100, Span::DAY);
        let left = |remaining| verdict(Retry::Now, remaining);
        // Nine units are enough for four requests of cost two, and so are eight.
        assert_eq!(binding(&combined(&[(&second, left(8), 2), (&day, left(9), 2)])), "day");
        assert_eq!(binding(&combined(&[(&second, left(7), 2), (&day, left(8), 2)])), "second");
        assert_eq!(binding(&combined(&[(&second, left(8), 1), (&day, left(9), 1)])), "second");
    }

    #[test]
    fn a_policy_in_shadow_neither_refuses_nor_binds_nor_delays() {
        let enforced = shared("enforced", 100, Span::SECOND);
        let shadow = Arc::new(Policy { mode: Mode::Shadow, ..policy("shadow", 100, Span::DAY) });
        let held = Verdict { delay: Span::SECOND, ..verdict(Retry::Now, 0) };
        for judged in [verdict(Retry::After(Span::DAY), 0), verdict(Retry::Never, 0), held] {
            let decision =
                combined(&[(&shadow, judged, 1), (&enforced, verdict(Retry::Now, 9), 1)]);
            assert_eq!(binding(&decision), "enforced");
            assert!(matches!(decision.outcome, Outcome::Admit) && decision.delay.is_zero());
            assert_eq!(decision.violated().count(), 0);
        }
    }

    #[test]
    fn an_admitted_request_is_delayed_by_the_slowest_queue() {
        let [a, b] = ["a", "b"].map(|name| shared(name, 100, Span::SECOND));
        let held = |ms| Verdict { delay: Span::from_millis(ms), ..verdict(Retry::Now, 1) };
        let delay = |other| combined(&[(&a, held(5), 1), (&b, other, 1)]).delay;
        assert_eq!(delay(held(7)), Span::from_millis(7));
        assert_eq!(delay(verdict(Retry::After(Span::SECOND), 0)), Span::ZERO);
    }

    #[test]
    fn a_request_without_policies_is_admitted() {
        let decision = combined(&[]);
        assert!(matches!(decision.outcome, Outcome::Admit) && decision.binding.is_none());
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn the_order_of_policies_decides_nothing(
            verdicts in prop::collection::vec((0..4_u64, 0..3_u64, 1..3_u64, 1..3_u64), 1..6),
            turns in 0..6_usize,
        ) {
            let policies: Vec<_> = verdicts
                .iter()
                .enumerate()
                .map(|(n, &(.., window_s, limit))| {
                    shared(&n.to_string(), limit, Span::from_secs(window_s))
                })
                .collect();
            let mut reports: Vec<_> = policies
                .iter()
                .zip(&verdicts)
                .map(|(policy, &(wait_s, remaining, ..))| match wait_s {
                    0 => (policy, verdict(Retry::Now, remaining), 1),
                    secs => (policy, verdict(Retry::After(Span::from_secs(secs)), remaining), 1),
                })
                .collect();
            let before = combined(&reports);
            reports.rotate_left(turns % policies.len());
            let after = combined(&reports);
            prop_assert_eq!(binding(&before), binding(&after));
            prop_assert_eq!(format!("{:?}", before.outcome), format!("{:?}", after.outcome));
            reports.reverse();
            prop_assert_eq!(binding(&before), binding(&combined(&reports)));
        }
    }
}
