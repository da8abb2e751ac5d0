//! Told waits are kept, a wait that is too short is found, and what changes a counter ends its
//! promise.

use super::super::promises::{MAX_PROMISES, PromiseCounts, tell_shorter_waits};
use super::*;

const WINDOW: Span = Span::from_secs(60);

fn charge(key: Key, algorithm: &Algorithm, cost: u64) -> Charge<'_> {
    Charge { key, algorithm, cost, binding: true, consistency: Consistency::default() }
}

/// Keys that are in the sample of a store.
fn sampled(store: &MemoryStore) -> impl Iterator<Item = Key> {
    (0..).map(key).filter(|key| store.place(*key).sample().is_some())
}

fn counts(store: &MemoryStore) -> [u64; 2] {
    let all = store.promises();
    let PromiseCounts { kept, broken } = all.values().fold(PromiseCounts::default(), |sum, it| {
        PromiseCounts { kept: sum.kept + it.kept, broken: sum.broken + it.broken }
    });
    [kept, broken]
}

/// Uses up the limit of a client and returns the wait that it is told.
fn exhaust(store: &MemoryStore, key: Key, algorithm: &Algorithm, now: Timestamp) -> Span {
    loop {
        match store.apply(&[charge(key, algorithm, 1)], now)[0].retry {
            Retry::Now => {}
            Retry::After(wait) => return wait,
            Retry::Never => panic!("one unit fits"),
        }
    }
}

#[test]
fn a_client_that_comes_back_after_its_wait_keeps_the_promise() {
    let now = at(1_795_246_126_000_000);
    for algorithm in all(3, WINDOW) {
        let store = MemoryStore::new(1000);
        let key = sampled(&store).next().unwrap();
        let wait = exhaust(&store, key, &algorithm, now);
        let almost = now.plus(wait).minus(Span::from_micros(1));
        assert!(!store.apply(&[charge(key, &algorithm, 1)], almost)[0].admitted, "{algorithm:?}");
        assert_eq!(counts(&store), [0, 0], "it was too early: {algorithm:?}");
        assert!(store.apply(&[charge(key, &algorithm, 1)], now.plus(wait))[0].admitted);
        assert_eq!(counts(&store), [1, 0], "{algorithm:?}");
    }
}

/// The algorithm lies on purpose. Both ways to decide find it.
#[test]
fn a_wait_that_is_too_short_is_a_broken_promise() {
    let now = at(1_795_246_126_000_000);
    let lie = Span::from_millis(5);
    for algorithm in all(3, WINDOW) {
        for together in [false, true] {
            let store = MemoryStore::new(1000);
            let key = sampled(&store).next().unwrap();
            tell_shorter_waits(lie);
            let wait = exhaust(&store, key, &algorithm, now);
            tell_shorter_waits(Span::ZERO);
            let other = charge(super::key(u64::MAX), &algorithm, 1);
            let own = charge(key, &algorithm, 1);
            let charges = if together { vec![other, own] } else { vec![own] };
            let back = now.plus(wait);
            assert!(!store.apply(&charges, back).last().unwrap().admitted, "{algorithm:?}");
            assert_eq!(counts(&store), [0, 1], "{algorithm:?}");
            // The client is told the true wait now.
            let again = back.plus(lie);
            assert!(store.apply(&[own], again)[0].admitted);
            assert_eq!(counts(&store), [1, 1], "{algorithm:?}");
        }
    }
}

#[test]
fn a_counter_that_has_changed_promises_nothing() {
    let now = at(1_795_246_126_000_000);
    let algorithm = fixed(3);
    let change = |change: &dyn Fn(&MemoryStore, Key, Timestamp)| {
        let store = MemoryStore::new(1000);
        let key = sampled(&store).next().unwrap();
        let wait = exhaust(&store, key, &algorithm, now);
        change(&store, key, now.plus(Span::from_millis(1)));
        // Whatever the result is, it is no result of the promise.
        store.apply(&[charge(key, &algorithm, 1)], now.plus(wait));
        assert_eq!(counts(&store), [0, 0]);
    };
    let correct = |op: fn(Timestamp) -> Op| {
        let algorithm = algorithm.clone();
        move |store: &MemoryStore, key: Key, at: Timestamp| {
            store.correct(&charge(key, &algorithm, 1), op(at), at);
        }
    };
    change(&correct(|taken| Op::Settle { reserved: 0, actual: 2, taken }));
    change(&correct(|taken| Op::Settle { reserved: 1, actual: 0, taken }));
    change(&correct(|taken| Op::Give { cost: 1, taken }));
    change(&|store, key, at| {
        store.take_out(key, &algorithm, at);
    });
    change(&|store, key, at| store.put(key, &algorithm, State::InFlight { units: 0 }, at));
    change(&|store, key, at| drop(store.apply(&[charge(key, &fixed(4), 1)], at)));
    change(&|store, _, at| {
        store.housekeep(at.plus(Span::DAY));
        store.housekeep(at);
    });
}

#[test]
fn charges_that_are_told_no_exact_wait_are_not_sampled() {
    let now = at(1_795_246_126_000_000);
    let store = MemoryStore::new(1000);
    let key = sampled(&store).next().unwrap();
    let in_flight = Algorithm::Concurrency(Concurrency::new(1).unwrap());
    let once = fixed(1);
    let shadow = Charge { binding: false, ..charge(key, &once, 1) };
    for charge in [charge(key, &in_flight, 1), shadow] {
        store.apply(&[charge], now);
        store.apply(&[charge], now);
        store.apply(&[charge], now.plus(WINDOW));
        store.take_out(key, charge.algorithm, now);
    }
    assert_eq!(counts(&store), [0, 0]);
}

#[test]
fn a_flood_of_refused_clients_is_within_the_bound() {
    let now = at(1_795_246_126_000_000);
    let store = MemoryStore::new(100_000);
    let algorithm = fixed(1);
    for key in (0..60_000).map(key) {
        exhaust(&store, key, &algorithm, now);
    }
    let promised = |shard: &Mutex<Shard>| shard.lock().promises.len();
    let promised: usize = store.shards.iter().map(promised).sum();
    assert!((MAX_PROMISES / 2..=MAX_PROMISES).contains(&promised), "{promised}");
    for key in (0..60_000).map(key) {
        store.apply(&[charge(key, &algorithm, 1)], now.plus(WINDOW));
    }
    assert_eq!(counts(&store), [promised as u64, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 2, ..cases() })]

    /// Workers read their clocks a moment before they have the lock, so the clock of one
    /// counter goes back and forth a little.
    #[test]
    fn no_promise_is_broken_whatever_happens(
        algorithm in algorithms(),
        steps in prop::collection::vec(
            (prop_oneof![0..50_000_u64, 0..3_000_000_u64], 0..3_000_u64, 1..4_u64, 0..8_u8),
            1..200,
        ),
    ) {
        let store = MemoryStore::new(1000);
        let key = sampled(&store).next().unwrap();
        let mut clock = at(1_795_246_126_000_000);
        let mut told = None;
        for (gap_us, late_us, cost, what) in steps {
            clock = clock.plus(Span::from_micros(gap_us));
            // Sometimes the client comes back exactly after its wait.
            if let (0..2, Some(fits_at)) = (what, told) {
                clock = clock.max(fits_at);
            }
            let now = clock.minus(Span::from_micros(if what < 2 { 0 } else { late_us }));
            let charge = charge(key, &algorithm, cost);
            if what == 7 {
                store.correct(&charge, Op::Settle { reserved: cost, actual: late_us % 4, taken: now }, now);
            } else if let Retry::After(wait) = store.apply(&[charge], now)[0].retry {
                told = Some(now.plus(wait));
            }
        }
        prop_assert_eq!(counts(&store)[1], 0);
    }
}

/// Threads use the same few keys at their own times.
#[test]
fn threads_break_no_promise() {
    let store = MemoryStore::new(1000);
    let keys: Vec<Key> = sampled(&store).take(4).collect();
    let algorithms = all(20, Span::from_millis(3));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let clock = crate::time::Clock::System;
                for turn in 0..40_000 {
                    let key = keys[turn % 4];
                    let algorithm = &algorithms[turn % 4];
                    store.apply(&[charge(key, algorithm, 1)], clock.now());
                }
            });
        }
    });
    let [kept, broken] = counts(&store);
    assert_eq!(broken, 0);
    assert!(kept > 0, "clients came back");
}
