//! Invariants that hold for every sequence of checks and failed requests.

use proptest::prelude::*;

use super::*;

const SECOND_US: u64 = 1_000_000;

fn checks(rise: u32, fall: u32) -> CheckSettings {
    CheckSettings { rise, fall, ..CheckSettings::new("/".parse().unwrap()) }
}

fn eject() -> EjectSettings {
    EjectSettings::default()
}

#[test]
fn checks_in_a_row_take_an_endpoint_out_of_service_and_put_it_back() {
    let settings = checks(2, 3);
    let mut health = HealthState::default();
    let mut check = |is_healthy, now_us| health.check(is_healthy, &settings, now_us);
    for (is_healthy, change) in [
        (false, None),
        (false, None),
        (true, None),
        (false, None),
        (false, None),
        (false, Some(HealthChange::Down)),
        (false, None),
        (true, None),
        (false, None),
        (true, None),
        (true, Some(HealthChange::Up)),
        (true, None),
    ] {
        assert_eq!(check(is_healthy, 7), change);
    }
    assert_eq!(health.in_service_from_us(), 7);
}

#[test]
fn an_ejection_that_follows_soon_lasts_longer() {
    let mut health = HealthState::default();
    let mut now_us = 0;
    for seconds in [30, 60, 120, 240, 240] {
        let period = Duration::from_secs(seconds);
        assert_eq!(health.eject(&eject(), now_us), Some(HealthChange::Ejected(period)));
        assert_eq!(health.eject(&eject(), now_us + 1), None, "it is already ejected");
        now_us = health.in_service_from_us();
        assert!(!health.is_ejected(now_us));
    }
    now_us += 240 * SECOND_US;
    let first = HealthChange::Ejected(Duration::from_secs(30));
    assert_eq!(health.eject(&eject(), now_us), Some(first), "it was in service for long enough");
}

#[test]
fn an_endpoint_that_is_new_or_back_starts_slowly() {
    let slow_start = Duration::from_secs(10);
    let share = |now_us| share_percent(5 * SECOND_US, now_us, slow_start);
    assert_eq!(share(4 * SECOND_US), (0, Some(5 * SECOND_US)));
    assert_eq!(share(5 * SECOND_US), (10, Some(5 * SECOND_US + SECOND_US / 2)));
    assert_eq!(share(10 * SECOND_US).0, 50);
    assert_eq!(share(15 * SECOND_US), (100, None));
    assert_eq!(share_percent(5, 5, Duration::ZERO), (100, None));
    assert_eq!(share_percent(0, 0, slow_start), (100, None), "it was always in service");
    assert_eq!(share_percent(u64::MAX, u64::MAX, slow_start), (0, None), "it is down");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Check(bool),
    Failures,
}

fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
    let event = prop_oneof![any::<bool>().prop_map(Event::Check), Just(Event::Failures)];
    prop::collection::vec((event, 0..100 * SECOND_US), 1..200)
}

proptest! {
    #[test]
    fn an_ejection_is_bounded_and_only_checks_set_down(
        events in events(),
        rise in 1_u32..4,
        fall in 1_u32..4,
    ) {
        let settings = checks(rise, fall);
        let mut health = HealthState::default();
        let mut now_us = 0;
        let mut last = true;
        let mut run = 0;
        for (event, pause_us) in events {
            now_us += pause_us;
            match event {
                Event::Check(is_healthy) => {
                    run = if is_healthy == last { run + 1 } else { 1 };
                    last = is_healthy;
                    let change = health.check(is_healthy, &settings, now_us);
                    let needed = if is_healthy { rise } else { fall };
                    prop_assert!(change.is_none() || run >= needed);
                    prop_assert!(run < needed || health.is_down() != is_healthy);
                }
                Event::Failures => {
                    let was_down = health.is_down();
                    health.eject(&eject(), now_us);
                    prop_assert!(health.is_ejected(now_us));
                    prop_assert_eq!(health.is_down(), was_down);
                }
            }
            let from_us = health.in_service_from_us();
            let longest_us = 240 * SECOND_US;
            prop_assert_eq!(from_us == u64::MAX, health.is_down());
            prop_assert!(health.is_down() || from_us <= now_us + longest_us);
        }
    }

    #[test]
    fn never_more_than_the_share_is_ejected(endpoints in 0_usize..200, max_percent in 0_u8..=100) {
        let mut ejected = 0;
        while may_eject(ejected, endpoints, max_percent) {
            ejected += 1;
        }
        prop_assert!(ejected * 100 <= endpoints * usize::from(max_percent));
        prop_assert!((ejected + 1) * 100 > endpoints * usize::from(max_percent));
    }

    /// A share never falls while an endpoint is in service, and changes at the stated time.
    #[test]
    fn a_share_grows_to_the_whole(from_us in 1_u64..1000, slow_start_us in 0_u64..1_000_000) {
        let slow_start = Duration::from_micros(slow_start_us);
        let mut now_us = 0;
        let mut last = 0;
        let mut steps = 0;
        loop {
            let (percent, next_us) = share_percent(from_us, now_us, slow_start);
            prop_assert!(percent >= last && percent <= 100);
            last = percent;
            steps += 1;
            let Some(next_us) = next_us else { break };
            prop_assert!(next_us > now_us);
            now_us = next_us;
        }
        prop_assert_eq!(last, 100);
        prop_assert!(steps <= 45, "{} steps", steps);
    }
}
