//! Policies with different windows share one store that is too small for all their keys.

use super::*;

const MAX_KEYS: usize = 2048;
const CLIENTS: u64 = 400;
/// A number far from those of the clients.
const STRANGERS: u64 = 1 << 32;
/// The start of a day, and so of a minute.
const START_US: u64 = 20_778 * 86_400_000_000;
const MINUTE: Span = Span::from_secs(60);

fn charge(number: u64, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    Charge { key: key(number), algorithm, cost, binding: true, consistency: Consistency::default() }
}

/// Four hundred clients use 60 to 100 units of their limit. Then a flood of new keys under
/// another policy takes one unit each. Returns how many of the clients have their whole limit
/// again at the end, although no time has passed.
fn reset_by_flood(clients: &Algorithm, flood: &Algorithm, at_us: u64) -> usize {
    let store = MemoryStore::new(MAX_KEYS);
    let now = at(at_us);
    for number in 0..CLIENTS {
        store.apply(&[charge(number, clients, 60 + number % 41)], now);
    }
    for stranger in 0..20_000 {
        store.apply(&[charge(STRANGERS + stranger, flood, 1)], now);
    }
    let capacity = clients.capacity();
    (0..CLIENTS).filter(|&number| remaining(&store, key(number), clients, now) == capacity).count()
}

#[test]
fn a_flood_under_a_policy_per_day_resets_no_client_of_a_policy_per_minute() {
    for flood in all(10_000, Span::DAY) {
        for clients in all(100, MINUTE) {
            let reset = reset_by_flood(&clients, &flood, START_US + 1);
            assert_eq!(reset, 0, "{} by {}", clients.name(), flood.name());
        }
    }
}

#[test]
fn a_flood_under_a_policy_per_second_resets_no_client_of_a_policy_per_day() {
    for flood in all(100, Span::SECOND) {
        for clients in all(100, Span::DAY) {
            let reset = reset_by_flood(&clients, &flood, START_US + 1);
            assert_eq!(reset, 0, "{} by {}", clients.name(), flood.name());
        }
    }
}

/// A debt that ends only at the edge of its window is as large one second before the edge.
#[test]
fn a_flood_just_before_the_edge_resets_no_client_of_a_fixed_window() {
    let clients = fixed(100);
    let hour = Quota::new(10, Span::from_secs(3600)).unwrap();
    let flood = Algorithm::SlidingWindow(SlidingWindow::new(hour));
    assert_eq!(reset_by_flood(&clients, &flood, START_US + 58_000_000), 0);
}

/// Clients of two policies need more room than the store has, and one client sends as many
/// requests as it can. A minute is one window, so the client gets at most 100.
#[test]
fn an_abuser_gets_only_its_limit_when_other_clients_overflow_the_store() {
    const ABUSER: u64 = 1 << 40;
    let minute = Algorithm::SlidingWindow(SlidingWindow::new(Quota::new(100, MINUTE).unwrap()));
    let day = Algorithm::SlidingWindow(SlidingWindow::new(Quota::new(20_000, Span::DAY).unwrap()));
    let store = MemoryStore::new(MAX_KEYS);
    let mut random = fastrand::Rng::with_seed(11);
    let take = |client: u64, now| {
        let charges = [charge(2 * client, &minute, 1), charge(2 * client + 1, &day, 1)];
        store.apply(&charges, now).iter().all(|verdict| verdict.admitted)
    };
    // An hour before, and then the minute: 500 requests a second of 5,000 clients.
    for tick in 0..60 * 500 {
        take(random.u64(0..5000), at(START_US + 3_540_000_000 + tick * 2000));
    }
    let mut admitted = 0;
    for tick in 0..60 * 500 {
        let now = at(START_US + 3_600_000_001 + tick * 1999);
        take(random.u64(0..5000), now);
        // The client sends 25 requests a second.
        admitted += u64::from(tick % 20 == 0 && take(ABUSER, now));
    }
    assert!(store.forgiven().states > 1000, "the store is too small");
    assert_eq!(admitted, 100);
}

#[test]
fn forgotten_states_are_measured_in_limits() {
    let hour = Quota::new(100, Span::from_secs(3600)).unwrap();
    let hour = Algorithm::FixedWindow(FixedWindow::new(hour));
    // The store has so few slots that the states of one policy fill all of them.
    let store = MemoryStore::new(1);
    let slots = u64::try_from(store.shards.len() * store.groups * WAYS).unwrap();
    for number in 0..20 * slots {
        store.apply(&[charge(number, &hour, 50)], at(START_US));
    }
    let forgiven = store.forgiven();
    assert_eq!(store.live_keys(at(START_US)), usize::try_from(slots).unwrap());
    assert_eq!(forgiven.states, 19 * slots);
    let each = forgiven.milli_limits / forgiven.states;
    assert!((400..=625).contains(&each), "{each} thousandths of a limit for each state");
}
