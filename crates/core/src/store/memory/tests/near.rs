//! The near groups of a large table.

use super::*;

/// A number far from those of other keys.
const LASTING: u64 = 1 << 32;
const START_US: u64 = 1_795_246_080_000_000;

fn take(store: &MemoryStore, key: Key, algorithm: &Algorithm, now: Timestamp) -> u64 {
    let consistency = Consistency::default();
    store.apply(&[Charge { key, algorithm, cost: 1, binding: true, consistency }], now)[0].remaining
}

#[test]
fn some_thousand_keys_are_in_near_groups() {
    let store = MemoryStore::new(1_000_000);
    let algorithm = fixed(100);
    for number in 0..4_000 {
        take(&store, key(number), &algorithm, at(START_US));
    }
    let near = |shard: &Mutex<Shard>| shard.lock().live_in(0..store.near_groups, at(START_US));
    assert_eq!(store.shards.iter().map(near).sum::<usize>(), 4_000);
    let bytes = store.shards.len() * store.near_groups * WAYS * shard::SLOT_BYTES;
    assert!(bytes <= 640 * 1024, "{bytes} bytes");
}

#[test]
fn a_small_table_has_no_near_groups() {
    assert_eq!(MemoryStore::new(10_000).near_groups, 0);
    assert_eq!(MemoryStore::of_one_decision().near_groups, 0);
}

#[test]
fn a_key_in_another_group_is_found_when_its_near_group_has_room_again() {
    let store = MemoryStore::new(200_000);
    let window = |secs| Quota::new(100, Span::from_secs(secs)).unwrap();
    let short = Algorithm::FixedWindow(FixedWindow::new(window(1)));
    let long = Algorithm::FixedWindow(FixedWindow::new(window(3600)));
    for number in 0..150_000 {
        take(&store, key(number), &short, at(START_US));
    }
    let lasting = || (0..2_000).map(|number| key(LASTING + number));
    let in_near = |now| {
        let live = |shard: &Mutex<Shard>| shard.lock().live_in(0..store.near_groups, now);
        store.shards.iter().map(live).sum::<usize>()
    };
    let before = in_near(at(START_US));
    lasting().for_each(|key| assert_eq!(take(&store, key, &long, at(START_US)), 99));
    assert!(in_near(at(START_US)) < before + 1_000, "most near groups are full");
    let later = at(START_US).plus(Span::from_secs(10));
    lasting().for_each(|key| assert_eq!(take(&store, key, &long, later), 98));
    assert_eq!(store.live_keys(later), 2_000);
}

#[test]
fn counters_of_a_client_share_their_near_group_and_differ_in_their_tags() {
    let store = MemoryStore::new(1_000_000);
    for client in 0..100 {
        let counter = |name: u64| Counter::of(|digest| digest.value(&name.to_le_bytes()));
        let key = |name| Key { counter: counter(name), ..key(client) };
        let places: Vec<_> = (0..16).map(|name| store.place(key(name))).collect();
        assert!(places.iter().all(|it| (it.shard, it.near) == (places[0].shard, places[0].near)));
        let mut tags: Vec<_> = places.iter().map(|place| place.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        // A lookup compares the keys of equal tags.
        assert!(tags.len() >= 12, "{tags:?}");
    }
}
