//! One decision from several verdicts. Pure.
//!
//! Every policy must admit. A refused request waits for the slowest of those
//! that refused; an admitted one is told about the policy that will refuse it
//! first. The order of the policies decides nothing.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Lease, Report, Reports, Ruling};
use crate::algorithm::Retry;
use crate::policy::TokenFault;
use crate::policy::{Mode, Policy};
use crate::time::Span;

/// The wait for a client whose request could not be judged: breakers check this often
/// whether the store is back.
pub(super) const RETRY_STORE: Span = Span::SECOND;

/// The same for a client whose token cannot be verified yet: a set of keys that
/// has not come is asked for that often at first.
pub(super) const RETRY_KEYS: Span = Span::SECOND;

/// The result for a request.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<P> {
    /// All policies admit it, or none judges it.
    Admit,
    /// At least one refuses it: how long until all of them can admit it.
    Refuse(Retry),
    /// The store is away, and at least one policy refuses what cannot be
    /// judged: how long until it is worth another try. Nothing was counted.
    Unavailable(Span),
    /// It lacks the key that this policy demands. Nothing was counted.
    Deny(P),
    /// Its bearer token cannot be verified yet, which this policy demands: how long
    /// until it is worth another try. Nothing was counted.
    Unverifiable(P, Span),
    /// Backends may read different keys, or plans, of this policy in it. Nothing
    /// was counted.
    Ambiguous(P),
    /// It lacks the bearer token that this policy demands. Nothing was counted.
    Unauthorized(P, TokenFault),
}

/// Policies that demand a key which a request lacks.
pub type Lacking<P> = SmallVec<[P; 1]>;

/// The decision of all policies of a route on a request. `P` borrows the policies or owns
/// them.
#[derive(Debug)]
pub struct Decision<P> {
    /// The result.
    pub outcome: Outcome<P>,
    /// How long it is to be held before it goes on, if it is admitted.
    pub delay: Span,
    /// Index of the report whose numbers the client is told.
    pub binding: Option<usize>,
    /// All reports.
    pub reports: Reports<P>,
    /// Policies in shadow that would have [denied](Outcome::Deny) it.
    pub lacking: Lacking<P>,
    /// What it owes when its response has ended, if it is admitted.
    pub lease: Lease,
}

/// A decision that owns its policies.
pub type OwnedDecision = Decision<Arc<Policy>>;

impl<P: Borrow<Arc<Policy>>> Decision<P> {
    /// What the reports come to. The longest wait binds; among policies that
    /// admit, the one with the fewest such requests left. If that is a tie,
    /// the longer window does, then the lower limit, then the name. Policies in
    /// shadow neither refuse nor bind.
    #[inline] // so that all reports are copied once less
    pub(super) fn combine(reports: Reports<P>, lacking: Lacking<P>, lease: Lease) -> Self {
        let told = || reports.iter().enumerate().filter(|(_, report)| report.is_told());
        let refused = told()
            .filter(|(_, report)| report.refuses())
            .max_by_key(|(_, report)| (report.verdict.retry, report.precedence()));
        if let Some((index, report)) = refused {
            let outcome = Outcome::Refuse(report.verdict.retry);
            let (delay, binding) = (Span::ZERO, Some(index));
            return Self { outcome, delay, binding, reports, lacking, lease };
        }
        if reports.iter().any(|report| report.ruling == Ruling::FailedClosed && report.refuses()) {
            let outcome = Outcome::Unavailable(RETRY_STORE);
            let (delay, binding) = (Span::ZERO, None);
            return Self { outcome, delay, binding, reports, lacking, lease };
        }
        let binding = told()
            .max_by_key(|(_, report)| (Reverse(report.requests_left()), report.precedence()))
            .map(|(index, _)| index);
        let delay = told().map(|(_, report)| report.verdict.delay).max().unwrap_or_default();
        Self { outcome: Outcome::Admit, delay, binding, reports, lacking, lease }
    }

    /// A request that is judged by what it lacks, before anything is counted.
    pub(super) fn uncounted(outcome: Outcome<P>) -> Self {
        Self {
            outcome,
            delay: Span::ZERO,
            binding: None,
            reports: Reports::new(),
            lacking: Lacking::new(),
            lease: Lease::default(),
        }
    }

    /// The report whose numbers the client is told.
    pub fn binding(&self) -> Option<&Report<P>> {
        self.reports.get(self.binding?)
    }

    /// All reports of policies that enforce their limits.
    pub fn enforced(&self) -> impl Iterator<Item = &Report<P>> {
        self.reports.iter().filter(|report| report.policy.borrow().mode == Mode::Enforce)
    }

    /// All reports that the client is told of.
    pub fn told(&self) -> impl Iterator<Item = &Report<P>> {
        self.reports.iter().filter(|report| report.is_told())
    }

    /// All policies that refuse the request.
    pub fn violated(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.reports.iter().filter(|report| report.refuses()).map(|it| it.policy.borrow())
    }

    /// All policies in shadow that would have refused the request.
    pub fn shadow_refused(&self) -> impl Iterator<Item = &Arc<Policy>> {
        let reports = self.reports.iter().filter(|report| report.is_shadow_refused());
        reports.map(|it| it.policy.borrow()).chain(self.lacking.iter().map(P::borrow))
    }

    /// Whether it is admitted although it is beyond a limit, which upstream and
    /// client are told (see [`X_RATELIMIT_SOFT`](super::X_RATELIMIT_SOFT)).
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
    use crate::algorithm::tests::cases;
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
    fn the_longest_wait_binds_and_all_that_refuse_are_named() {
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
    fn what_can_never_pass_is_refused_forever_whatever_the_others_say() {
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
        // Nine units are four requests of cost two; eight are four as well.
        assert_eq!(binding(&combined(&[(&second, left(8), 2), (&day, left(9), 2)])), "day");
        assert_eq!(binding(&combined(&[(&second, left(7), 2), (&day, left(8), 2)])), "second");
        assert_eq!(binding(&combined(&[(&second, left(8), 1), (&day, left(9), 1)])), "second");
    }

    #[test]
    fn what_is_in_shadow_neither_refuses_nor_binds_nor_delays() {
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
    fn a_request_is_held_as_long_as_the_slowest_queue_asks_for_if_it_is_admitted() {
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
