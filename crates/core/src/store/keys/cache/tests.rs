//! How long what was read is valid, and the bounds.

use super::*;
use crate::api_keys::{KeyDigest, KeyId};
use crate::testing::after;

const STALE: Span = Span::from_secs(600);

fn id(number: u64) -> KeyId {
    KeyId::from_bits(number)
}

fn sought(number: u64) -> Sought {
    Sought::Id(id(number))
}

fn record(number: u64) -> KeyRecord {
    KeyRecord::new(id(number), KeyDigest::from_bytes([7; 32]))
}

fn read(marks: &Marks, part: usize, ms: u64) -> ReadAt {
    ReadAt { mark: marks.of_part(part), at: after(ms) }
}

#[test]
fn a_key_is_certain_while_marks_are_read_and_its_mark_is_the_same() {
    let marks = Marks::default();
    let mut cache = Cache::new(10, 10);
    let part = part_of_id(id(1));
    marks.hear([(part, 7)], after(0));
    cache.learn(sought(1), record(1), read(&marks, part, 0), None);
    let known = |marks: &Marks, cache: &Cache, ms| cache.fresh(&sought(1), marks, after(ms));
    assert!(matches!(known(&marks, &cache, 1499), Some(Found::Known(_))));
    assert_eq!(known(&marks, &cache, 1500), None, "the marks were not read");
    marks.hear([(part, 7)], after(1000));
    assert!(known(&marks, &cache, 2499).is_some());
    marks.hear([(part, 8)], after(2000));
    assert_eq!(known(&marks, &cache, 2000), None, "its part was changed");
}

#[test]
fn a_change_of_its_team_makes_a_key_uncertain() {
    let marks = Marks::default();
    let mut cache = Cache::new(10, 10);
    let team = Arc::new(TeamRecord::new("acme"));
    let key = KeyRecord { team: Some("acme".into()), ..record(1) };
    let part = part_of_id(id(1));
    let team_part = part_of_team("acme");
    assert_ne!(part, team_part);
    let of_team = (Some(Arc::clone(&team)), read(&marks, team_part, 0));
    cache.learn(sought(1), key, read(&marks, part, 0), Some(of_team));
    let Some(Found::Known(entry)) = cache.fresh(&sought(1), &marks, after(10)) else {
        panic!("it was read");
    };
    assert_eq!(entry.team, Some(team));
    marks.hear([(team_part, 9)], after(100));
    assert_eq!(cache.fresh(&sought(1), &marks, after(100)), None);
}

#[test]
fn a_key_that_was_found_by_its_digest_ends_with_the_mark_of_its_id() {
    let marks = Marks::default();
    let mut cache = Cache::new(10, 10);
    let sought = Sought::Digest(KeyDigest::from_bytes([1; 32]));
    let part = part_of_id(id(1));
    cache.learn(sought, record(1), read(&marks, part, 0), None);
    assert!(cache.fresh(&sought, &marks, after(10)).is_some());
    marks.hear([(part, 9)], after(100));
    assert_eq!(cache.fresh(&sought, &marks, after(100)), None);
}

#[test]
fn a_key_is_trusted_for_a_time_after_it_was_last_certain() {
    let marks = Marks::default();
    let mut cache = Cache::new(10, 10);
    let part = part_of_id(id(1));
    marks.hear([(part, 7)], after(0));
    cache.learn(sought(1), record(1), read(&marks, part, 0), None);
    let trusted = |marks: &Marks, cache: &Cache, ms| {
        let known = cache.last_known(&sought(1));
        known.is_some_and(|(entry, read)| is_trusted(&entry, read, marks, after(ms), STALE))
    };
    assert!(trusted(&marks, &cache, 599_999));
    assert!(!trusted(&marks, &cache, 600_000));
    marks.hear([(part, 7)], after(5000));
    assert!(trusted(&marks, &cache, 604_999), "it was certain when the marks were read");
    marks.hear([], after(6000));
    assert!(trusted(&marks, &cache, 599_999), "Redis was emptied");
    assert!(!trusted(&marks, &cache, 600_000));
    let (entry, read) = cache.last_known(&sought(1)).unwrap();
    assert!(!is_trusted(&entry, read, &marks, after(10), Span::ZERO), "it is denied");
    assert!(cache.last_known(&sought(2)).is_none(), "it was never known");
}

#[test]
fn a_key_that_is_made_later_is_found() {
    let marks = Marks::default();
    let mut cache = Cache::new(10, 10);
    let part = part_of_id(id(1));
    cache.learn_unknown(sought(1), read(&marks, part, 0));
    assert_eq!(cache.fresh(&sought(1), &marks, after(10)), Some(Found::Unknown));
    marks.hear([(part, 3)], after(20));
    assert_eq!(cache.fresh(&sought(1), &marks, after(20)), None);
    cache.learn(sought(1), record(1), read(&marks, part, 30), None);
    assert!(matches!(cache.fresh(&sought(1), &marks, after(30)), Some(Found::Known(_))));
    assert_eq!(cache.len(), (1, 0));
}

#[test]
fn both_caches_have_bounds_and_invented_ids_displace_no_key() {
    let marks = Marks::default();
    let mut cache = Cache::new(MAX_KNOWN, MAX_UNKNOWN);
    let at = ReadAt { mark: 0, at: after(0) };
    // The cache keeps nearly as many keys as its bound, because it has shards and a reserve.
    let keys = 90_000;
    (0..keys).for_each(|number| drop(cache.learn(sought(number), record(number), at, None)));
    let (known, _) = cache.len();
    for number in keys..keys + 100_000 {
        cache.learn_unknown(sought(number), at);
        assert!(cache.len().1 <= MAX_UNKNOWN);
    }
    assert_eq!(cache.len().0, known);
    assert_eq!(known, 90_000);
    (0..keys).for_each(|number| assert!(cache.fresh(&sought(number), &marks, after(1)).is_some()));
    for number in keys..keys + 30_000 {
        cache.learn(sought(number), record(number), at, None);
        assert!(cache.len().0 <= MAX_KNOWN);
    }
}

#[test]
fn a_worker_notes_a_use_once_in_ten_minutes_also_if_the_key_is_read_again() {
    let marks = Marks::default();
    let mut cache = Cache::new(10, 10);
    let part = part_of_id(id(1));
    let every = Span::from_secs(600);
    assert!(!cache.notes_use(&sought(1), after(0), every), "it is not known");
    cache.learn(sought(1), record(1), read(&marks, part, 0), None);
    assert!(cache.notes_use(&sought(1), after(0), every));
    cache.learn(sought(1), record(1), read(&marks, part, 10), None);
    let noted = [1, 599_999, 600_000].map(|ms| cache.notes_use(&sought(1), after(ms), every));
    assert_eq!(noted, [false, false, true]);
}
