//! The table agrees with a plain map and keeps its bound under a flood. Threads neither lose
//! nor add a unit.

mod clocks;
mod flood;
mod held;
mod key_count;
mod late;
mod mixed;
mod near;
mod promises;
mod schedules;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::algorithm::testing::{algorithms, cases};
use crate::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, Quota, Retry, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket,
};
use crate::consistency::Consistency;
use crate::digest::{Counter, Principal};
use crate::time::Span;

/// A key like those of a digest: all bits look random.
fn key(number: u64) -> Key {
    let mut digest = crate::digest::Secret::from_bytes([3; 16]).digest();
    digest.value(&number.to_le_bytes());
    let principal = Principal::from_bits(digest.finish());
    Key { principal, counter: Counter::from_bits(1) }
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us)
}

fn fixed(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::from_secs(60)).unwrap()))
}

/// All algorithms that count units in time.
fn all(limit: u64, window: Span) -> Vec<Algorithm> {
    let quota = Quota::new(limit, window).unwrap();
    vec![
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::SubWindows(SubWindows::new(quota, 10).unwrap()),
        Algorithm::SlidingLog(SlidingLog::new(quota).unwrap()),
        Algorithm::FixedWindow(FixedWindow::new(quota)),
        Algorithm::TokenBucket(TokenBucket::new(quota, limit).unwrap()),
        Algorithm::LeakyBucket(LeakyBucket::new(quota, window, None).unwrap()),
    ]
}

/// The remaining units, by a take of 0 units.
fn remaining(store: &MemoryStore, key: Key, algorithm: &Algorithm, now: Timestamp) -> u64 {
    store.apply(
        &[Charge { key, algorithm, cost: 0, binding: true, consistency: Consistency::default() }],
        now,
    )[0]
    .remaining
}

/// A simple model of the store, without a bound.
#[derive(Default)]
struct Model(HashMap<Key, State>);

impl Model {
    fn apply(&mut self, charges: &[Charge<'_>], now: Timestamp) -> Vec<Verdict> {
        let judge = |op: fn(u64) -> Op, charge: &Charge<'_>| {
            charge.algorithm.apply(self.0.get(&charge.key), op(charge.cost), now)
        };
        let judged: Vec<_> = charges.iter().map(|charge| judge(Op::Take, charge)).collect();
        let refused = charges.iter().zip(&judged).any(|(c, (_, v))| c.binding && !v.admitted);
        if refused {
            let unspent = charges.iter().zip(judged).map(|(charge, (_, verdict))| Verdict {
                remaining: judge(|_| Op::Peek, charge).1.remaining,
                reset_after: judge(|_| Op::Peek, charge).1.reset_after,
                ..verdict
            });
            return unspent.collect();
        }
        for (charge, (next, _)) in charges.iter().zip(&judged) {
            if let Some(next) = next {
                self.0.insert(charge.key, next.clone());
            }
        }
        judged.into_iter().map(|(_, verdict)| verdict).collect()
    }

    fn correct(&mut self, charge: &Charge<'_>, op: Op, now: Timestamp) {
        if let (Some(next), _) = charge.algorithm.apply(self.0.get(&charge.key), op, now) {
            self.0.insert(charge.key, next);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 4, ..cases() })]

    #[test]
    fn the_store_agrees_with_a_plain_map(
        counting in prop::collection::vec(algorithms(), 5),
        most_in_flight in 1..12_u64,
        steps in prop::collection::vec(
            (
                prop_oneof![3 => 0..100_u64, 1 => 0..3_000_000_u64],
                prop::collection::vec((1..=3_u64, any::<bool>()), 1..=6),
                0..20_u64,
                prop::option::weighted(0.3, 0..6_u64),
            ),
            1..60,
        ),
    ) {
        let store = MemoryStore::new(10_000);
        let mut model = Model::default();
        let in_flight = Algorithm::Concurrency(Concurrency::new(most_in_flight).unwrap());
        let policies = [in_flight].into_iter().chain(counting).collect::<Vec<_>>();
        let mut now = at(1_795_246_126_000_000);
        for (gap_us, costs, client, correction) in steps {
            now = now.plus(Span::from_micros(gap_us));
            let charges: Vec<_> = (0..).zip(&policies).zip(costs).map(
                |((policy, algorithm), (cost, binding))| {
                    Charge { key: key(client * 6 + policy), algorithm, cost, binding, consistency: Consistency::default() }
                },
            ).collect();
            prop_assert_eq!(store.apply(&charges, now).into_vec(), model.apply(&charges, now));
            match correction {
                None => {}
                Some(0) => {
                    for charge in &charges {
                        let op = Op::Give { cost: charge.cost, taken: now };
                        store.correct(charge, op, now);
                        model.correct(charge, op, now);
                    }
                }
                Some(actual) => for &charge in &charges {
                    let op = Op::Settle { reserved: charge.cost, actual, taken: now };
                    store.correct(&charge, op, now);
                    model.correct(&charge, op, now);
                },
            }
        }
        prop_assert_eq!(store.forgiven().states, 0);
    }
}

/// Eight threads decide for some seconds on two cores. Each round has counters of its
/// own, so that the threads contend for limits all the time.
#[test]
fn threads_on_overlapping_policies_neither_lose_nor_add_a_unit() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 800;
    const DECISIONS: u64 = 1000;
    const POLICIES: usize = 6;
    let policies: [_; POLICIES] = [200, 300, 400, 500, 600, 700].map(fixed);
    let store = MemoryStore::new(100_000);
    let counters = |round: u64| (0..).zip(&policies).map(move |(n, it)| (key(8 * round + n), it));
    let admitted: Vec<[AtomicU64; POLICIES]> = (0..ROUNDS).map(|_| Default::default()).collect();
    let decide = |round: u64, admitted: &[AtomicU64; POLICIES], random: &mut fastrand::Rng| {
        let counters: SmallVec<[_; POLICIES]> = counters(round).collect();
        for _ in 0..DECISIONS {
            // Any subset in any order, so that threads lock the same shards in different orders.
            let count = random.usize(1..=POLICIES);
            let chosen = random.choose_multiple(0..POLICIES, count);
            let charge = |&policy: &usize| {
                let ((key, algorithm), cost) = (counters[policy], 1 + u64::from(policy % 2 == 1));
                Charge { key, algorithm, cost, binding: true, consistency: Consistency::default() }
            };
            let charges: SmallVec<[_; POLICIES]> = chosen.iter().map(charge).collect();
            if store.apply(&charges, at(0)).iter().all(|verdict| verdict.admitted) {
                for (&policy, charge) in chosen.iter().zip(&charges) {
                    admitted[policy].fetch_add(charge.cost, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let admitted = &admitted;
            let decide = &decide;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                (0..).zip(admitted).for_each(|(round, admitted)| {
                    decide(round, admitted, &mut random);
                });
            });
        }
    });
    for (round, admitted) in (0..).zip(&admitted) {
        let left = counters(round).zip(admitted).map(|((key, algorithm), admitted)| {
            let left = remaining(&store, key, algorithm, at(0));
            assert_eq!(admitted.load(Ordering::Relaxed) + left, algorithm.limit());
            left
        });
        assert_eq!(left.min(), Some(0), "the limits were contended");
    }
    assert_eq!(store.forgiven().states, 0);
}

#[test]
fn a_refusal_by_one_policy_consumes_nothing_of_the_others() {
    let roomy = fixed(10);
    let full = fixed(1);
    let store = MemoryStore::new(100);
    let charges = |binding| {
        [
            Charge {
                key: key(1),
                algorithm: &roomy,
                cost: 4,
                binding: true,
                consistency: Consistency::default(),
            },
            Charge {
                key: key(2),
                algorithm: &full,
                cost: 1,
                binding,
                consistency: Consistency::default(),
            },
        ]
    };
    assert!(store.apply(&charges(true), at(0)).iter().all(|verdict| verdict.admitted));
    let refused = store.apply(&charges(true), at(0));
    assert_eq!((refused[0].admitted, refused[0].remaining), (true, 6));
    assert!(!refused[1].admitted);
    // A charge that does not bind never refuses the request.
    let shadow = store.apply(&charges(false), at(0));
    assert_eq!((shadow[0].remaining, shadow[1].admitted), (2, false));
}

#[test]
fn a_state_without_units_takes_no_slot() {
    let algorithm = fixed(10);
    let store = MemoryStore::new(100);
    let charge = Charge {
        key: key(1),
        algorithm: &algorithm,
        cost: 4,
        binding: true,
        consistency: Consistency::default(),
    };
    store.apply(&[charge], at(0));
    assert_eq!(store.live_keys(at(0)), 1);
    store.correct(&charge, Op::Give { cost: 4, taken: at(0) }, at(0));
    assert_eq!(store.live_keys(at(0)), 0);
}

#[test]
fn look_counts_nothing_and_take_out_forgets_the_counter() {
    let algorithm = fixed(10);
    let store = MemoryStore::new(100);
    let charge = |cost| Charge {
        key: key(1),
        algorithm: &algorithm,
        cost,
        binding: true,
        consistency: Consistency::default(),
    };
    store.apply(&[charge(4)], at(0));
    let fits = store.look(&charge(6), at(0));
    assert_eq!((fits.admitted, fits.remaining), (true, 6));
    assert!(!store.look(&charge(7), at(0)).admitted);
    assert_eq!(store.take_out(key(1), &algorithm, at(0)), 4);
    assert_eq!(store.take_out(key(1), &algorithm, at(0)), 0);
    assert_eq!(store.live_keys(at(0)), 0);
}

#[test]
fn a_changed_limit_keeps_the_count() {
    let high = fixed(10);
    let low = fixed(5);
    let store = MemoryStore::new(100);
    let take = |algorithm| Charge {
        key: key(1),
        algorithm,
        cost: 3,
        binding: true,
        consistency: Consistency::default(),
    };
    store.apply(&[take(&high)], at(0));
    assert_eq!(remaining(&store, key(1), &low, at(0)), 2);
    assert!(!store.apply(&[take(&low)], at(0))[0].admitted);
    assert_eq!(store.apply(&[take(&high)], at(0))[0].remaining, 4);
}
