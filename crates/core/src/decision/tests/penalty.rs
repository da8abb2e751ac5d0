//! A client that is refused too often is banned.

use super::*;
use crate::algorithm::Ban;
use crate::policy::{Elastic, Penalty};

const SECOND_US: u64 = 1_000_000;

/// A policy of one request a second, with a ban of ten seconds for the third refusal in
/// five seconds.
fn strict(mode: Mode) -> Policy {
    let ban = Ban::new(Span::from_secs(10), Span::from_secs(25)).unwrap();
    let after = fixed(3, Span::from_secs(5));
    let penalty = Some(Penalty { after, ban: Algorithm::Ban(ban), delay: Span::ZERO });
    Policy { mode, penalty, ..policy("strict", 1, Span::SECOND) }
}

/// Takes the only unit, and is refused until the ban.
async fn provoke(gate: &Gate, us: u64) {
    assert_eq!(outcomes(&gate.decide(us).await)[0], "admitted");
    for _ in 0..2 {
        let refused = gate.decide(us).await;
        assert_eq!((outcomes(&refused)[0], wait(&refused)), ("refused", Span::SECOND));
    }
}

#[tokio::test]
async fn the_refusal_that_causes_a_ban_reports_the_ban() {
    let gate = Gate::new([strict(Mode::Enforce), policy("other", 100, DAY)]);
    provoke(&gate, 0).await;
    let banned = gate.decide(0).await;
    assert_eq!(outcomes(&banned), ["banned", "admitted"]);
    assert_eq!((wait(&banned), remaining(&banned)[0]), (Span::from_secs(10), 0));
    assert_eq!(banned.reports[0].verdict.limit, 1);
}

#[tokio::test]
async fn a_banned_client_is_refused_until_the_end_and_not_counted() {
    let gate = Gate::new([strict(Mode::Enforce), policy("other", 100, DAY)]);
    provoke(&gate, SECOND_US).await;
    gate.decide(SECOND_US).await;
    let end_us = 11 * SECOND_US;
    for us in [SECOND_US, 2 * SECOND_US, end_us - 1] {
        for _ in 0..4 {
            let banned = gate.decide(us).await;
            assert_eq!(outcomes(&banned), ["banned", "admitted"]);
            assert_eq!(wait(&banned), Span::from_micros(end_us - us));
            assert_eq!(remaining(&banned)[1], 99);
            assert!(banned.violated().map(|policy| &*policy.name).eq(["strict"]));
        }
    }
    // These refusals were not counted for a further ban.
    provoke(&gate, end_us).await;
}

#[tokio::test]
async fn the_wait_of_a_banned_client_includes_the_wait_for_its_limit() {
    let daily = Policy { algorithm: fixed(1, DAY), ..strict(Mode::Enforce) };
    let gate = Gate::new([daily]);
    let waits = [gate.decide(0).await, gate.decide(0).await, gate.decide(0).await];
    assert!(is_admitted(&waits[0]) && wait(&waits[1]) == DAY && wait(&waits[2]) == DAY);
    for _ in 0..2 {
        let banned = gate.decide(0).await;
        assert_eq!((outcomes(&banned)[0], wait(&banned)), ("banned", DAY));
    }
}

#[tokio::test]
async fn a_banned_client_is_refused_even_if_the_upstream_has_room() {
    let elastic =
        Elastic { beyond: fixed(100, DAY), latency_below: None, in_flight_below_percent: Some(50) };
    let mut gate = Gate::new([Policy { elastic: Some(elastic), ..strict(Mode::Enforce) }]);
    provoke(&gate, 0).await;
    assert_eq!(outcomes(&gate.decide(0).await), ["banned"]);
    gate.room.in_flight_percent = Some(0);
    assert_eq!(outcomes(&gate.decide(0).await), ["banned"]);
    assert_eq!(outcomes(&gate.decide(SECOND_US).await), ["banned"]);
}

#[tokio::test]
async fn a_ban_includes_requests_of_cost_zero() {
    let gate = Gate::new([strict(Mode::Enforce)]);
    provoke(&gate, 0).await;
    gate.decide(0).await;
    assert_eq!(outcomes(&gate.decide_at_costs(&[0], 0).await), ["banned"]);
}

#[tokio::test]
async fn each_ban_lasts_twice_as_long_up_to_the_longest() {
    let gate = Gate::new([strict(Mode::Enforce)]);
    let mut us = 0;
    for secs in [10, 20, 25, 25] {
        provoke(&gate, us).await;
        assert_eq!(wait(&gate.decide(us).await), Span::from_secs(secs));
        us += secs * SECOND_US;
    }
    // The bans are forgotten after the length of the longest ban.
    us += 25 * SECOND_US;
    provoke(&gate, us).await;
    assert_eq!(wait(&gate.decide(us).await), Span::from_secs(10));
}

#[tokio::test]
async fn refusals_by_another_policy_do_not_count() {
    let gate = Gate::new([strict(Mode::Enforce), policy("tight", 1, DAY)]);
    assert!(is_admitted(&gate.decide(0).await));
    for _ in 0..9 {
        assert_eq!(outcomes(&gate.decide(SECOND_US).await), ["admitted", "refused"]);
    }
}

#[tokio::test]
async fn a_ban_in_shadow_is_reported_and_refuses_no_request() {
    let gate = Gate::new([strict(Mode::Shadow)]);
    for _ in 0..9 {
        assert!(is_admitted(&gate.decide(0).await));
    }
    let decision = gate.decide(9 * SECOND_US).await;
    assert!(is_admitted(&decision));
    assert_eq!(decision.reports[0].ruling, Ruling::Banned);
    assert_eq!(outcomes(&decision), ["shadow_refused"]);
}
