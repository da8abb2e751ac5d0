//! The locks of several shards, under thousands of schedules. A model runs the threads one at
//! a time, and chooses the next thread at each lock. It detects when all threads wait.

use std::panic::catch_unwind;

use shuttle::sync::{Arc, Mutex, MutexGuard};
use shuttle::{check_pct, check_random};

use super::super::place::Place;
use super::*;
use crate::store::memory::locked::Locked;

const SCHEDULES: usize = 2000;
const LIMIT: u64 = 3;
/// The number of shards: the keys below are in different ones.
const SHARDS: usize = 64;
/// The keys of each thread's decisions. Any two threads share two keys, and use them in
/// different orders.
const DECISIONS: [[u64; 3]; 3] = [[0, 1, 2], [2, 1, 3], [3, 2, 0]];

struct Shards {
    places: MemoryStore,
    shards: Vec<Mutex<Shard>>,
}

impl Shards {
    fn new() -> Self {
        let places = MemoryStore::with_shards(1, SHARDS);
        Self { places, shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(1, SHARDS))).collect() }
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].lock().expect("no thread panics while it holds a lock")
    }

    fn places(&self, charges: &[Charge<'_>]) -> Vec<Place> {
        charges.iter().map(|charge| self.places.place(charge.key)).collect()
    }

    /// The same as [`MemoryStore::apply`].
    fn apply(&self, charges: &[Charge<'_>]) -> Verdicts {
        let places = self.places(charges);
        let answers =
            Locked::new(&places, |index| self.lock(index)).decide(charges, &places, at(0));
        answers.into_iter().map(|answer| answer.verdict).collect()
    }

    fn remaining(&self, algorithm: &Algorithm, number: u64) -> u64 {
        self.apply(&[Charge {
            key: key(number),
            algorithm,
            cost: 0,
            binding: true,
            consistency: Consistency::default(),
        }])[0]
            .remaining
    }
}

fn charges<'a>(numbers: &[u64], algorithm: &'a Algorithm) -> Vec<Charge<'a>> {
    let charge = |&number: &u64| Charge {
        key: key(number),
        algorithm,
        cost: 1,
        binding: true,
        consistency: Consistency::default(),
    };
    numbers.iter().map(charge).collect()
}

/// Runs a thread for each of the [`DECISIONS`]. Each returns how many it admitted.
fn run(shards: &Arc<Shards>, decide: fn(&Shards, &[u64]) -> u64) -> Vec<u64> {
    let threads = DECISIONS.map(|numbers| {
        let shards = Arc::clone(shards);
        shuttle::thread::spawn(move || decide(&shards, &numbers))
    });
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn overlapping_decisions() {
    let shards = Arc::new(Shards::new());
    let admitted = run(&shards, |shards, numbers| {
        let algorithm = fixed(LIMIT);
        let charges = charges(numbers, &algorithm);
        let admitted = |_: &usize| shards.apply(&charges).iter().all(|verdict| verdict.admitted);
        (0..2).filter(admitted).count() as u64
    });
    let algorithm = fixed(LIMIT);
    for number in 0..4 {
        let uses = DECISIONS.iter().zip(&admitted).filter(|(keys, _)| keys.contains(&number));
        let taken: u64 = uses.map(|(_, admitted)| admitted).sum();
        assert_eq!(taken + shards.remaining(&algorithm, number), LIMIT, "units of key {number}");
    }
    assert_eq!(shards.remaining(&algorithm, 2), 0, "key 2 was contended");
}

/// Locks in the order of the keys, which the store must not do.
fn decisions_that_lock_in_their_own_order() {
    run(&Arc::new(Shards::new()), |shards, numbers| {
        let algorithm = fixed(LIMIT);
        let places = shards.places(&charges(numbers, &algorithm));
        let locked: Vec<_> = places.iter().map(|place| shards.lock(place.shard)).collect();
        locked.len() as u64
    });
}

#[test]
fn overlapping_decisions_neither_deadlock_nor_lose_a_unit() {
    check_random(overlapping_decisions, SCHEDULES);
    check_pct(overlapping_decisions, SCHEDULES, 3);
}

#[test]
fn the_model_detects_a_deadlock() {
    let found = catch_unwind(|| check_random(decisions_that_lock_in_their_own_order, SCHEDULES));
    assert!(found.is_err());
}
