//! The time of a decision in the memory store with a million live keys, and the
//! memory per key.
//!
//! The aims are less than 250 ns with one policy, and at most 50 bytes per key. A key
//! that is in no CPU cache needs two reads of memory, and the second depends on the
//! first. The time of two such reads on this machine is therefore measured, too.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, Quota, QuotaError, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket,
};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Key, Principal, Secret};
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::{Span, Timestamp};

const KEYS: usize = 1_000_000;
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// The resident memory of the process, in bytes.
fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_default() * PAGE_BYTES
}

/// A million keys in random order, which no cache can predict.
fn keys() -> Vec<Key> {
    let secret = Secret::random();
    let digest = |number: usize| {
        let mut digest = secret.digest();
        digest.value(&number.to_le_bytes());
        let principal = Principal::from_bits(digest.finish());
        Key { principal, counter: Counter::from_bits(1) }
    };
    (0..KEYS).map(digest).collect()
}

/// A limit that no key reaches, so that every decision writes.
fn per_minute() -> Quota {
    Quota::new(1_000_000_000, Span::from_secs(60)).expect("a valid quota")
}

fn charge(key: Key, algorithm: &Algorithm) -> Charge<'_> {
    Charge { key, algorithm, cost: 1, binding: true, consistency: Consistency::default() }
}

fn filled(keys: &[Key], algorithm: &Algorithm) -> MemoryStore {
    let store = MemoryStore::new(KEYS);
    for &key in keys {
        store.apply(&[charge(key, algorithm)], NOW);
    }
    store
}

/// Prints the memory of a store. This works for the first stores only, because later
/// ones reuse resident memory.
#[expect(clippy::print_stderr, reason = "the result of a measurement")]
fn weighed(keys: &[Key], algorithm: &Algorithm) -> MemoryStore {
    let before = resident_bytes();
    let store = filled(keys, algorithm);
    let bytes = resident_bytes().saturating_sub(before);
    let live = store.live_keys(NOW);
    let tenths = bytes * 10 / live;
    eprintln!(
        "{}: {live} live keys, {}.{} bytes each, {} forgiven",
        algorithm.name(),
        tenths / 10,
        tenths % 10,
        store.forgiven().states,
    );
    store
}

/// One policy with each of the other algorithms. Their states are larger, or their
/// times are harder to compute.
fn others() -> Result<[Algorithm; 5], QuotaError> {
    let minute = Quota::new(100, Span::from_secs(60))?;
    let day = Quota::new(1_000_000_000, Span::DAY)?;
    Ok([
        Algorithm::SubWindows(SubWindows::new(minute, 10)?),
        Algorithm::SlidingLog(SlidingLog::new(minute)?),
        Algorithm::FixedWindow(FixedWindow::calendar(day, "Europe/Berlin")?),
        Algorithm::LeakyBucket(LeakyBucket::new(minute, Span::from_secs(3600), None)?),
        Algorithm::Concurrency(Concurrency::new(1_000_000)?),
    ])
}

fn decisions(criterion: &mut Criterion) {
    let keys = keys();
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(per_minute()));
    let bucket = TokenBucket::new(per_minute(), 1_000_000).expect("a valid burst");
    for algorithm in [&sliding, &Algorithm::TokenBucket(bucket)] {
        let store = weighed(&keys, algorithm);
        let mut next = keys.iter().copied().cycle();
        let mut next = || next.next().expect("the keys never end");
        criterion.bench_function(&format!("{}, one policy", algorithm.name()), |bencher| {
            bencher.iter(|| store.apply(black_box(&[charge(next(), algorithm)]), NOW));
        });
        criterion.bench_function(&format!("{}, three policies", algorithm.name()), |bencher| {
            bencher.iter(|| {
                let charges = [next(), next(), next()].map(|key| charge(key, algorithm));
                store.apply(black_box(&charges), NOW)
            });
        });
    }
}

/// Every decision has a different time, so that logs have entries.
fn other_decisions(criterion: &mut Criterion) {
    let keys = keys();
    let mut now = NOW;
    for algorithm in &others().expect("valid quotas") {
        let store = filled(&keys, algorithm);
        let mut next = keys.iter().copied().cycle();
        let mut next = || next.next().expect("the keys never end");
        criterion.bench_function(&format!("{}, one policy", algorithm.name()), |bencher| {
            bencher.iter(|| {
                now = now.plus(Span::from_micros(1));
                store.apply(black_box(&[charge(next(), algorithm)]), now)
            });
        });
    }
}

/// The time of two reads that are in no cache. Each position depends on the read
/// before. The memory is as large as that of a store of a million keys.
fn memory(criterion: &mut Criterion) {
    const PLACES: u32 = 45_000_000 / 4;
    let mut random = fastrand::Rng::with_seed(1);
    let places: Vec<u32> = (0..PLACES).map(|_| random.u32(0..PLACES)).collect();
    let read = |place: u32| places[usize::try_from(place % PLACES).expect("32 bits fit")];
    let mut place = 0;
    criterion.bench_function("memory, two dependent reads", |bencher| {
        bencher.iter(|| {
            // A random number is added, because a chain without it soon becomes a cycle.
            place = read(read(place).wrapping_add(random.u32(..)));
        });
    });
    black_box(place);
}

criterion_group!(benches, memory, decisions, other_decisions);
criterion_main!(benches);
