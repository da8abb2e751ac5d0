//! The breaker in virtual time: tables of expected transitions, and random sequences of events
//! for the invariants.

use proptest::prelude::*;
use tollgate_core::time::monotonic;

use super::*;

fn breaker() -> Breaker {
    Breaker::new(fastrand::Rng::with_seed(7))
}

fn closed() -> Breaker {
    let mut breaker = breaker();
    assert_eq!(breaker.succeeded(), Some(Change::Closed));
    breaker
}

#[test]
fn an_unknown_server_is_tried_and_the_breaker_opens_at_its_first_failure() {
    let mut breaker = breaker();
    assert!(breaker.admits());
    assert_eq!(breaker.failed(monotonic()), Some(Change::Opened));
    assert!(!breaker.admits());
}

#[test]
fn failures_open_it_only_in_a_row() {
    let mut breaker = closed();
    let now = monotonic();
    for _ in 0..10 {
        assert_eq!(breaker.failed(now), None);
        assert_eq!(breaker.failed(now), None);
        assert_eq!(breaker.succeeded(), None);
    }
    assert_eq!(breaker.failed(now), None);
    assert_eq!(breaker.failed(now), None);
    assert_eq!(breaker.failed(now), Some(Change::Opened));
    assert_eq!(breaker.times_opened(), 1);
}

#[test]
fn connections_that_break_under_decisions_are_replaced_until_three_did_so_in_a_row() {
    let mut breaker = closed();
    let now = monotonic();
    for _ in 0..3 {
        assert_eq!(breaker.disconnected(now), None);
        assert_eq!(breaker.disconnected(now), None);
        assert_eq!(breaker.position(), Position::HalfOpen);
        assert_eq!(breaker.succeeded(), None, "its opening was never reported");
    }
    assert_eq!(breaker.disconnected(now), None);
    assert_eq!(breaker.disconnected(now), None);
    assert_eq!(breaker.disconnected(now), Some(Change::Opened));
}

#[test]
fn a_server_that_was_away_opens_it_again_with_the_first_connection_that_breaks() {
    let mut breaker = breaker();
    let now = monotonic();
    assert_eq!(breaker.failed(now), Some(Change::Opened));
    breaker.probed(true, now);
    assert_eq!(breaker.disconnected(now), None, "its opening was reported before");
    assert_eq!(breaker.position(), Position::Open);
}

#[test]
fn connections_that_close_while_idle_never_open_it_but_the_next_failure_does() {
    let mut breaker = closed();
    let now = monotonic();
    for _ in 0..10 {
        breaker.closed_while_idle();
        assert_eq!(breaker.position(), Position::HalfOpen);
    }
    assert_eq!(breaker.failed(now), Some(Change::Opened), "the server does not listen any more");
    breaker.closed_while_idle();
    assert_eq!(breaker.position(), Position::Open);
}

#[test]
fn late_answers_do_not_close_an_open_breaker() {
    let mut breaker = breaker();
    let now = monotonic();
    assert_eq!(breaker.failed(now), Some(Change::Opened));
    assert_eq!(breaker.succeeded(), None);
    assert_eq!(breaker.failed(now), None);
    assert_eq!(breaker.position(), Position::Open);
    assert_eq!(breaker.times_opened(), 1);
}

#[test]
fn pauses_double_up_to_the_longest_until_a_decision_succeeds() {
    let mut breaker = breaker();
    let now = monotonic();
    assert_eq!(breaker.failed(now), Some(Change::Opened));
    for pause_ms in [100, 200, 400, 500, 500] {
        let pause = Duration::from_millis(pause_ms);
        let wait = breaker.probe_at().expect("it is open") - now;
        assert!(wait >= pause && wait <= pause * 5 / 4, "{wait:?} for {pause:?}");
        breaker.probed(false, now);
    }
    // A reply to a probe is not a reply to a decision.
    breaker.probed(true, now);
    assert_eq!(breaker.failed(now), None, "nothing has changed for decisions");
    assert!(breaker.probe_at().expect("it is open") - now >= LONGEST_PAUSE);
    breaker.probed(true, now);
    assert_eq!(breaker.succeeded(), Some(Change::Closed));
    assert_eq!(breaker.disconnected(now), None);
    assert_eq!(breaker.failed(now), Some(Change::Opened));
    assert!(breaker.probe_at().expect("it is open") - now < FIRST_PAUSE * 2);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Succeeded,
    Failed,
    Disconnected,
    ClosedWhileIdle,
    Probed(bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        Just(Event::Succeeded),
        Just(Event::Failed),
        Just(Event::Disconnected),
        Just(Event::ClosedWhileIdle),
        any::<bool>().prop_map(Event::Probed),
    ];
    prop::collection::vec(event, 0..200)
}

proptest! {
    /// In any sequence of events, opening and closing alternate, only an open breaker waits for a
    /// probe, and no probe is later than the longest pause.
    #[test]
    fn changes_are_reported_once_and_probes_are_never_late(events in events(), seed: u64) {
        let mut breaker = Breaker::new(fastrand::Rng::with_seed(seed));
        let now = monotonic();
        let mut last = None;
        let mut opened = 0;
        for event in events {
            let before = breaker.position();
            let change = match event {
                Event::Succeeded => breaker.succeeded(),
                Event::Failed => breaker.failed(now),
                Event::Disconnected => breaker.disconnected(now),
                Event::ClosedWhileIdle => {
                    breaker.closed_while_idle();
                    None
                }
                Event::Probed(answered) => {
                    breaker.probed(answered, now);
                    None
                }
            };
            let open = breaker.position() == Position::Open;
            prop_assert_eq!(breaker.probe_at().is_some(), open);
            prop_assert_eq!(breaker.admits(), !open);
            if let Some(at) = breaker.probe_at() {
                prop_assert!(at > now && at <= now + LONGEST_PAUSE * 5 / 4);
            }
            if open && before != Position::Open {
                opened += 1;
            }
            if before == Position::Open && !open {
                prop_assert!(matches!(event, Event::Probed(true)));
            }
            if let Some(change) = change {
                prop_assert_ne!(last, Some(change));
                last = Some(change);
            }
            match breaker.position() {
                Position::Open => prop_assert_eq!(last, Some(Change::Opened)),
                Position::Closed => prop_assert_eq!(last, Some(Change::Closed)),
                Position::HalfOpen => {}
            }
            prop_assert_eq!(breaker.times_opened(), opened);
        }
    }
}
