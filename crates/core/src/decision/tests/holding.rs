//! The wait of a client that is refused because of other requests in flight.

use super::*;
use crate::algorithm::Concurrency;

fn in_flight(name: &str, limit: u64) -> Policy {
    let algorithm = Algorithm::Concurrency(Concurrency::new(limit).unwrap());
    Policy::new(name, KeyExpr::Global, algorithm)
}

const SECOND_US: u64 = 1_000_000;

fn wait(decision: &Decision<&Arc<Policy>>) -> Span {
    match decision.outcome {
        Outcome::Refuse(Retry::After(wait)) => wait,
        _ => panic!("the request is not refused with a wait: {:?}", decision.outcome),
    }
}

#[tokio::test]
async fn a_client_waits_for_the_mean_time_in_flight_and_at_least_a_second() {
    let gate = Gate::new([in_flight("p", 1)]);
    let mut now_us = 0;
    for (held_s, told) in [(0, 1), (1, 1), (150, 10), (0, 9)] {
        let first = gate.decide(now_us).await;
        now_us += held_s * SECOND_US;
        gate.limiter.end(&first.lease, &Ending::default(), Timestamp::from_micros(now_us));
        let next = gate.decide(now_us).await;
        let refused = gate.decide(now_us).await;
        assert_eq!(wait(&refused).as_secs_ceil(), told, "{held_s}");
        assert_eq!(refused.reports[0].verdict.reset_after, wait(&refused));
        gate.limiter.end(&next.lease, &Ending::default(), Timestamp::from_micros(now_us));
    }
}

#[tokio::test]
async fn a_cost_above_the_limit_never_fits_whatever_the_mean_time() {
    let gate = Gate::new([in_flight("p", 2)]);
    let refused = gate.decide_at_costs(&[3], 0).await;
    assert!(matches!(refused.outcome, Outcome::Refuse(Retry::Never)));
}

#[tokio::test]
async fn each_policy_has_its_own_mean_time() {
    let gate = Gate::new([in_flight("long", 1), in_flight("short", 5)]);
    let first = gate.decide(0).await;
    gate.limiter.end(&first.lease, &Ending::default(), Timestamp::from_micros(7 * SECOND_US));
    let holding = gate.limiter.store().as_ref().holding();
    holding.ended(gate.policies[1].counter, Span::ZERO);
    let _held = gate.decide(0).await.lease;
    let refused = gate.decide(0).await;
    assert_eq!(wait(&refused), Span::from_secs(7));
    assert!(holding.wait(gate.policies[1].counter) < Span::from_secs(7));
}
