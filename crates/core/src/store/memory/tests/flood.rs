//! The behaviour of a store with more keys than slots.

use super::*;
use crate::algorithm::{SlidingWindow, TokenBucket};

const MAX_KEYS: usize = 8192;
const USERS: u64 = 2500;
/// A number far from those of the users.
const STRANGERS: u64 = 1 << 32;
const START_US: u64 = 1_795_246_080_000_000;

fn per_minute(limit: u64) -> Quota {
    Quota::new(limit, Span::from_secs(60)).unwrap()
}

/// Each user takes most of its limit. Then 4,000 new keys a second take one unit each, for 20
/// seconds. Returns the number of users whose state was forgotten.
fn users_reset_by_a_flood(store: &MemoryStore, algorithm: &Algorithm) -> usize {
    let start = at(START_US);
    for user in 0..USERS {
        let charge = Charge {
            key: key(user),
            algorithm,
            cost: 60 + user % 41,
            binding: true,
            consistency: Consistency::default(),
        };
        store.apply(&[charge], start);
    }
    let mut now = start;
    for stranger in 0..20 * 4000 {
        now = start.plus(Span::from_micros(stranger * 250));
        let charge = Charge {
            key: key(STRANGERS + stranger),
            algorithm,
            cost: 1,
            binding: true,
            consistency: Consistency::default(),
        };
        store.apply(&[charge], now);
    }
    (0..USERS).filter(|&user| remaining(store, key(user), algorithm, now) == 100).count()
}

#[test]
fn a_flood_of_new_keys_resets_no_user_in_debt() {
    let sliding = Algorithm::SlidingWindow(SlidingWindow::new(per_minute(100)));
    let bucket = Algorithm::TokenBucket(TokenBucket::new(per_minute(100), 100).unwrap());
    let safe = Algorithm::SubWindows(SubWindows::new(per_minute(100), 10).unwrap());
    for algorithm in [sliding, bucket, safe] {
        let store = MemoryStore::new(MAX_KEYS);
        assert_eq!(users_reset_by_a_flood(&store, &algorithm), 0, "{}", algorithm.name());
    }
}

/// A key whose bits all look random. It is cheaper than a digest.
fn random_key(random: &mut fastrand::Rng) -> Key {
    Key { principal: Principal::from_bits(random.u128(..)), counter: Counter::from_bits(1) }
}

/// A million slots, 300,000 keys in debt, and half a million new keys a second for `flood_s`
/// seconds. Returns the number of keys in debt that lost any part of it.
fn debtors_reset_at_full_size(flood_s: u64) -> usize {
    const NEW_KEYS_A_SECOND: u64 = 500_000;
    let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(per_minute(100)));
    let store = MemoryStore::new(850_000);
    let slots = store.shards.len() * store.groups * WAYS;
    assert!((950_000..1_050_000).contains(&slots), "{slots} slots");
    let mut random = fastrand::Rng::with_seed(7);
    let take = |key, cost, now| {
        store.apply(
            &[Charge {
                key,
                algorithm: &algorithm,
                cost,
                binding: true,
                consistency: Consistency::default(),
            }],
            now,
        )
    };
    // Just after the start of a window, so that no debt falls during the flood.
    let start = at(START_US + 1);
    let debtors: Vec<_> =
        (0..300_000_u64).map(|number| (random_key(&mut random), 60 + number % 41)).collect();
    for &(key, cost) in &debtors {
        take(key, cost, start);
    }
    assert_eq!(store.forgiven().states, 0);
    let mut now = start;
    for stranger in 0..flood_s * NEW_KEYS_A_SECOND {
        now = start.plus(Span::from_micros(stranger * 1_000_000 / NEW_KEYS_A_SECOND));
        take(random_key(&mut random), 1, now);
    }
    assert!(store.forgiven().states > 0 && store.live_keys(now) <= slots);
    let forgiven =
        |&&(key, cost): &&(Key, u64)| remaining(&store, key, &algorithm, now) != 100 - cost;
    debtors.iter().filter(forgiven).count()
}

#[test]
fn at_full_size_a_flood_removes_no_debt() {
    let flood_s = std::env::var("TOLLGATE_FLOOD_SECONDS").ok().and_then(|s| s.parse().ok());
    assert_eq!(debtors_reset_at_full_size(flood_s.unwrap_or(10)), 0);
}

#[test]
fn a_flood_fills_the_store_and_does_not_exceed_it() {
    let algorithm = Algorithm::SubWindows(SubWindows::new(per_minute(100), 10).unwrap());
    let store = MemoryStore::new(MAX_KEYS);
    let slots = store.shards.len() * store.groups * WAYS;
    users_reset_by_a_flood(&store, &algorithm);
    let live = store.live_keys(at(START_US));
    assert!((MAX_KEYS..=slots).contains(&live), "{live} live keys in {slots} slots");
    assert_eq!(store.forgiven().states, USERS + 20 * 4000 - u64::try_from(live).unwrap());
    let (kept, ever) = store
        .shards
        .iter()
        .map(|shard| shard.lock().large())
        .fold((0, 0), |(kept, ever), (here_kept, here_ever)| (kept + here_kept, ever + here_ever));
    assert_eq!(kept, live);
    assert!(ever <= slots, "{ever} large states for {slots} slots");
}

#[test]
fn the_promised_number_of_keys_fits() {
    let algorithm = fixed(100);
    let store = MemoryStore::new(100_000);
    for number in 0..100_000 {
        let charge = Charge {
            key: key(number),
            algorithm: &algorithm,
            cost: 1,
            binding: true,
            consistency: Consistency::default(),
        };
        store.apply(&[charge], at(START_US));
    }
    assert!(store.forgiven().states <= 2, "{} states were forgiven", store.forgiven().states);
}

#[test]
fn expired_states_free_their_slots() {
    let algorithm = fixed(100);
    let store = MemoryStore::new(2000);
    for number in 0..20_000 {
        let now = at(START_US).plus(Span::from_secs(number / 1000 * 61));
        let charge = Charge {
            key: key(number),
            algorithm: &algorithm,
            cost: 1,
            binding: true,
            consistency: Consistency::default(),
        };
        store.apply(&[charge], now);
    }
    assert_eq!(store.forgiven().states, 0);
}

#[test]
fn a_key_takes_fifty_bytes_at_most() {
    for max_keys in [100_000, 1_000_000, 10_000_000, 100_000_000] {
        let bytes = MIN_SHARDS * groups_per_shard(max_keys, MIN_SHARDS) * WAYS * shard::SLOT_BYTES;
        assert!(bytes <= 50 * max_keys, "{bytes} bytes for {max_keys} keys");
    }
}
