//! One counter with two thresholds: what is admitted, and what the client is
//! promised.

use proptest::prelude::*;

use super::*;
use crate::algorithm::tests::{algorithms, cases};
use crate::algorithm::{Op, TokenBucket};

/// The same with room for so many units more. A queue has no two thresholds.
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
        let policy = Arc::new(Policy::new("p", KeyExpr::Global, algorithm.clone()));
        let limit = Limit { algorithm: &algorithm, soft: Some(&soft) };
        let (mut state, mut now) = (None, Timestamp::from_micros(1_795_246_126_000_000));
        for (gap_us, cost) in steps {
            now = now.plus(Span::from_micros(gap_us));
            let claim = Claim { policy: &policy, key: Key { principal: Principal::from_bits(0), counter: policy.counter }, limit, instead: None, cost };
            let fits_own = algorithm.apply(state.as_ref(), Op::Take(cost), now).1.admitted;
            let (next, counted) = soft.apply(state.as_ref(), Op::Take(cost), now);
            let report = claim.report(&Answer::of_store(counted), None);
            prop_assert_eq!(report.ruling == Ruling::Admitted, fits_own);
            prop_assert_eq!(report.verdict.admitted, counted.admitted);
            state = next.or(state);
            let own = algorithm.apply(state.as_ref(), Op::Peek, now).1;
            prop_assert_eq!(report.verdict.limit, own.limit);
            prop_assert_eq!(report.verdict.remaining, own.remaining);
        }
    }
}
