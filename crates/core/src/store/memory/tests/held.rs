//! Units in flight are forgotten neither after a time nor because the store is full.

use super::*;

const MAX_KEYS: usize = 2000;

fn in_flight(limit: u64) -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(limit).unwrap())
}

fn charge(number: u64, algorithm: &Algorithm) -> Charge<'_> {
    Charge {
        key: key(number),
        algorithm,
        cost: 1,
        binding: true,
        consistency: Consistency::default(),
    }
}

fn is_admitted(store: &MemoryStore, charge: Charge<'_>, now: Timestamp) -> bool {
    store.apply(&[charge], now)[0].admitted
}

#[test]
fn units_in_flight_survive_a_flood_of_new_keys_and_a_hundred_years() {
    let single = in_flight(1);
    let minute = fixed(100);
    let store = MemoryStore::new(MAX_KEYS);
    for user in 0..1000 {
        assert!(is_admitted(&store, charge(user, &single), at(0)));
    }
    for stranger in 0..100_000 {
        store.apply(&[charge((1 << 32) + stranger, &minute)], at(0));
    }
    assert!(store.forgiven().states > 0, "the store was full");
    let later = at(100 * 366 * Span::DAY.as_micros());
    assert!((0..1000).all(|user| !is_admitted(&store, charge(user, &single), later)));
    assert_eq!(store.live_keys(later), 1000);
}

#[test]
fn units_that_are_given_back_can_be_taken_again_and_take_no_slot() {
    let single = in_flight(1);
    let store = MemoryStore::new(MAX_KEYS);
    for now in (0..10).map(at) {
        assert!(is_admitted(&store, charge(1, &single), now));
        assert!(!is_admitted(&store, charge(1, &single), now));
        store.correct(&charge(1, &single), Op::Give { cost: 1, taken: now }, now);
        assert_eq!(store.live_keys(now), 0);
    }
}

#[test]
fn when_the_map_is_full_new_keys_are_refused_and_held_keys_are_not() {
    let double = in_flight(2);
    let store = MemoryStore::new(1);
    let slots = store.shards.len() * store.groups * WAYS;
    let numbers = 0..4 * u64::try_from(slots).unwrap();
    let admitted: Vec<_> =
        numbers.filter(|&number| is_admitted(&store, charge(number, &double), at(0))).collect();
    assert_eq!(admitted.len(), slots);
    assert_eq!(store.live_keys(at(0)), slots);
    assert!(admitted.iter().all(|&held| is_admitted(&store, charge(held, &double), at(0))));
    let refused = store.apply(&[charge(1 << 40, &double)], at(0));
    assert_eq!((refused[0].admitted, refused[0].remaining), (false, 0));
    assert_eq!(refused[0].retry, Retry::After(Span::SECOND));
    // The other charge of the request is not counted either.
    let minute = fixed(5);
    let together = [charge(1 << 41, &minute), charge(1 << 40, &double)];
    assert!(!store.apply(&together, at(0))[1].admitted);
    assert_eq!(remaining(&store, key(1 << 41), &minute, at(0)), 5);
    for _ in 0..2 {
        store.correct(&charge(admitted[0], &double), Op::Give { cost: 1, taken: at(0) }, at(0));
    }
    assert!(is_admitted(&store, charge(admitted[0], &double), at(0)));
}
