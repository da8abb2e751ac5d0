//! Requests beyond a limit while the upstream has room.

use super::*;
use crate::policy::Elastic;

const SOME_ROOM: Headroom =
    Headroom { latency: Some(Span::ZERO), in_flight_percent: None, slowing: false };

fn elastic(name: &str, limit: u64, beyond: u64) -> Policy {
    let elastic = Elastic {
        beyond: fixed(beyond, DAY),
        latency_below: Some(Span::SECOND),
        in_flight_below_percent: None,
    };
    Policy { elastic: Some(elastic), ..policy(name, limit, DAY) }
}

#[tokio::test]
async fn the_limit_is_strict_without_room_and_higher_with_room() {
    let mut gate = Gate::new([elastic("e", 2, 3)]);
    for _ in 0..2 {
        assert_eq!(outcomes(&gate.decide(0).await), ["admitted"]);
    }
    assert_eq!(outcomes(&gate.decide(0).await), ["refused"]);
    gate.room = SOME_ROOM;
    for _ in 0..3 {
        let decision = gate.decide(0).await;
        assert!(is_admitted(&decision) && !decision.is_soft());
        assert_eq!(outcomes(&decision), ["elastic"]);
        assert_eq!((decision.reports[0].verdict.limit, remaining(&decision)), (2, vec![0]));
    }
    let refused = gate.decide(0).await;
    assert_eq!((outcomes(&refused), wait(&refused)), (vec!["refused"], DAY));
    assert_eq!(gate.remaining().await, [0]);
}

#[tokio::test]
async fn within_the_limit_nothing_counts_as_beyond_it() {
    let mut gate = Gate::new([elastic("e", 2, 1)]);
    gate.room = SOME_ROOM;
    let decided = [gate.decide(0).await, gate.decide(0).await, gate.decide(0).await];
    assert_eq!(decided.each_ref().map(|it| outcomes(it)[0]), ["admitted", "admitted", "elastic"]);
    assert!(!is_admitted(&gate.decide(0).await));
}

#[tokio::test]
async fn a_refusal_by_an_inelastic_policy_leaves_elastic_counters_unchanged() {
    let mut gate = Gate::new([elastic("e", 1, 1), policy("strict", 2, Span::SECOND)]);
    gate.room = SOME_ROOM;
    assert!(is_admitted(&gate.decide(0).await));
    assert!(!is_admitted(&gate.decide_at_costs(&[1, 2], 0).await));
    // A second later only the elastic policy would refuse, and its unit is still available.
    let decision = gate.decide(1_000_000).await;
    assert_eq!(outcomes(&decision), ["elastic", "admitted"]);
}

#[tokio::test]
async fn if_one_elastic_counter_is_exhausted_no_policy_consumes() {
    let mut gate = Gate::new([elastic("a", 1, 2), elastic("b", 1, 1), policy("strict", 9, DAY)]);
    gate.room = SOME_ROOM;
    assert_eq!(outcomes(&gate.decide(0).await), ["admitted", "admitted", "admitted"]);
    assert_eq!(outcomes(&gate.decide(0).await), ["elastic", "elastic", "admitted"]);
    let refused = gate.decide(0).await;
    assert_eq!(outcomes(&refused), ["refused", "refused", "admitted"]);
    assert_eq!(gate.remaining().await, [0, 0, 7]);
    // The elastic units of the first policy are still available.
    let alone = gate.decide_at_costs(&[1, 0, 1], 0).await;
    assert_eq!(outcomes(&alone), ["elastic", "admitted", "admitted"]);
}

#[tokio::test]
async fn elastic_units_are_given_back_to_the_elastic_counter() {
    let counted = Policy {
        count: crate::policy::Count::statuses(vec![http::StatusCode::UNAUTHORIZED]),
        ..elastic("e", 1, 1)
    };
    let mut gate = Gate::new([counted]);
    gate.room = SOME_ROOM;
    let first = gate.decide(0).await;
    let second = gate.decide(0).await;
    assert_eq!((outcomes(&first), outcomes(&second)), (vec!["admitted"], vec!["elastic"]));
    let fine = Ending { status: Some(http::StatusCode::OK), ..Ending::default() };
    gate.end(second.lease, &fine);
    assert_eq!(gate.remaining().await, [0]);
    assert_eq!(outcomes(&gate.decide(0).await), ["elastic"]);
}

/// An override, and the limits of API keys and teams, are what the operator has set for one key.
#[tokio::test]
async fn the_limit_of_a_single_key_is_not_raised() {
    let gate = Gate { room: SOME_ROOM, ..Gate::new([elastic("e", 3, 9)]) };
    for (units, admitted) in [(1, 1), (2, 1), (20, 18), (20, 0)] {
        let mut count = 0;
        for _ in 0..30 {
            let mut list = gate.claims(&[]);
            let own = gate.policies[0].override_limit(units, None).unwrap();
            list[0].instead = Some(Box::new(own));
            let mut claims = Claims { list, lacking: Lacking::new(), settles: false };
            let now = Timestamp::from_micros(0);
            let decision = gate.limiter.judge().judge(&mut claims, gate.room, now).await;
            count += u32::from(is_admitted(&decision));
        }
        assert_eq!(count, admitted, "{units}");
    }
}
