//! Takes that come after others of a later time, because workers read the clock before they lock a
//! shard.

use super::*;

const WINDOW: Span = Span::from_secs(10);

fn charge(number: u64, algorithm: &Algorithm) -> Charge<'_> {
    let consistency = Consistency::default();
    Charge { key: key(number), algorithm, cost: 1, binding: true, consistency }
}

/// The units once stayed counted, because the answer did not say when they were.
#[test]
fn a_take_that_comes_late_can_be_undone() {
    // On both sides of the edge of a window, and of a sub-window.
    let [before, after] = [at(99_999_999_999_999), at(100_000_000_000_003)];
    for algorithm in all(100, WINDOW) {
        for numbers in [&[1][..], &[1, 2]] {
            let store = MemoryStore::new(1000);
            let charges: Vec<Charge<'_>> =
                numbers.iter().map(|it| charge(*it, &algorithm)).collect();
            let first = store.decide(&charges, after);
            assert!(first.iter().all(|answer| answer.verdict.admitted && answer.at.is_none()));
            let left = |charge: &Charge<'_>| remaining(&store, charge.key, &algorithm, after);
            let units = left(&charges[0]);
            for (charge, answer) in charges.iter().zip(store.decide(&charges, before)) {
                let taken = answer.at.unwrap_or(before);
                store.correct(charge, Op::Cancel { cost: 1, taken }, after);
                assert_eq!(left(charge), units, "{algorithm:?}");
            }
        }
    }
}

#[test]
fn a_take_that_comes_in_order_has_the_time_of_the_decision() {
    for algorithm in all(100, WINDOW) {
        let store = MemoryStore::new(1000);
        for us in [0, 0, 1, 9_999_999, 10_000_000, 10_000_001, 100_000_000] {
            for answer in store.decide(&[charge(1, &algorithm), charge(2, &algorithm)], at(us)) {
                assert_eq!(answer.at, None, "{algorithm:?} at {us}");
            }
        }
    }
}
