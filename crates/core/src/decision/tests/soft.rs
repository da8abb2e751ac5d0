//! One counter with two thresholds: the admitted units, and the numbers in responses.

use proptest::prelude::*;

use super::*;
use crate::algorithm::testing::{algorithms, cases};
use crate::algorithm::{Op, TokenBucket};

/// The same algorithm with room for this number of units more. A queue has no second
/// threshold.
fn widened(algorithm: &Algorithm, more: u64) -> Option<Algorithm> {
    match algorithm {
        Algorithm::LeakyBucket(_) => None,
        Algorithm::TokenBucket(bucket) => {
            let quota = Quota::new(algorithm.limit(), algorithm.window()).unwrap();
            let wider = TokenBucket::new(quota, bucket.burst() + more).unwrap();
            Some(Algorithm::TokenBucket(wider))
        }
        _ => Some(algorithm.with_limit(algorithm.limit() + more).unwrap()),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_the_own_limit_would_refuse_is_marked_and_the_numbers_are_the_own_limits(
        algorithm in algorithms(),
        more in 0..6_u64,
        steps in prop::collection::vec((0..300_u64, 0..=4_u64), 1..40),
    ) {
        let Some(soft) = widened(&algorithm, more) else { return Ok(()) };
        let plain = Policy::new("p", KeyExpr::Global, algorithm.clone());
        let policy = Arc::new(Policy { soft: Some(soft.clone()), ..plain });
        let limit = LimitChoice::Own;
        let mut state = None;
        let mut now = Timestamp::from_micros(1_795_246_126_000_000);
        for (gap_us, cost) in steps {
            now = now.plus(Span::from_micros(gap_us));
            let key = Key { principal: Principal::from_bits(0), counter: policy.counter };
            let claim = Claim::known(&policy, key, limit, cost);
            let fits_own = algorithm.apply(state.as_ref(), Op::Take(cost), now).1.admitted;
            let (next, counted) = soft.apply(state.as_ref(), Op::Take(cost), now);
            let report = claim.report(&Answer::of_store(counted), None, now);
            prop_assert_eq!(report.ruling == Ruling::Admitted, fits_own);
            prop_assert_eq!(report.verdict.admitted, counted.admitted);
            state = next.or(state);
            let own = algorithm.apply(state.as_ref(), Op::Peek, now).1;
            prop_assert_eq!(report.verdict.limit, own.limit);
            prop_assert_eq!(report.verdict.remaining, own.remaining);
        }
    }
}

/// Regression: the remainder was that of a share, and the margin that of the whole limit. A
/// node with a soft limit of twice ten reported 0 remaining units after the first request,
/// and marked all requests.
#[test]
fn a_node_that_judges_alone_reports_its_share_of_both_thresholds() {
    let [own, soft] = [fixed(12, DAY), fixed(24, DAY)];
    let plain = Policy::new("p", KeyExpr::Global, own);
    let policy = Arc::new(Policy { soft: Some(soft.clone()), ..plain });
    let limit = LimitChoice::Own;
    let key = Key { principal: Principal::from_bits(0), counter: policy.counter };
    let claim = Claim::known(&policy, key, limit, 1);
    let now = Timestamp::from_micros(1_795_246_126_000_000);
    for (nodes, within) in [(1, 12), (2, 6), (4, 3), (100, 1)] {
        let share = soft.with_limit((24 / nodes).max(1)).unwrap();
        let mut state = None;
        for asked in 1..=(24 / nodes).max(1) {
            let (next, verdict) = share.apply(state.as_ref(), Op::Take(1), now);
            state = next.or(state);
            let answer = Answer::new(verdict, Source::Local);
            let report = claim.report(&answer, None, now);
            let expected = if asked <= within { Ruling::Admitted } else { Ruling::Soft };
            assert_eq!(report.ruling, expected, "request {asked} on one of {nodes} nodes");
            let left = u64::saturating_sub(within, asked);
            assert_eq!((report.verdict.remaining, report.used), (left, asked));
        }
    }
}
