//! What a sketch promises of a stream.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The digest of a key with this number: different bits decide the cell and the hash.
fn id(number: u64) -> KeyId {
    let mut rng = fastrand::Rng::with_seed(number);
    rng.u128(..)
}

#[derive(Default)]
struct Exact(BTreeMap<u64, u64>);

fn observe(sketch: &mut Sketch<u64>, exact: &mut Exact, number: u64) {
    sketch.observe(id(number), None, || number);
    *exact.0.entry(number).or_default() += 1;
}

/// Whether the counts of a merge are right, as the module promises.
fn check(merged: &[Entry<u64>], exact: &Exact) -> Result<(), TestCaseError> {
    let observed: u64 = exact.0.values().sum();
    let bound = observed / ENTRIES as u64;
    for (number, count) in &exact.0 {
        match merged.iter().find(|entry| entry.id == id(*number)) {
            Some(entry) => {
                prop_assert_eq!(entry.text, *number);
                prop_assert!(entry.count >= *count, "{} is counted too low", number);
                prop_assert!(entry.count - entry.error <= *count, "the error of {}", number);
                prop_assert!(entry.error <= bound, "{} of {}", entry.error, observed);
            }
            None => prop_assert!(*count <= bound, "{} of {} is missing", count, observed),
        }
    }
    prop_assert!(merged.is_sorted_by(|a, b| a.count >= b.count));
    Ok(())
}

/// Streams in which some keys are frequent and many come once or twice.
fn streams() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let key = prop_oneof![3 => 0..20_u64, 3 => 0..400_u64, 4 => 0..1_000_000_u64];
    let stream = prop::collection::vec(key, 0..3000);
    prop::collection::vec(stream, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frequent_keys_are_found_and_counts_are_never_too_low(streams in streams()) {
        let mut exact = Exact::default();
        let mut sketches = Vec::new();
        for stream in &streams {
            let mut sketch = Sketch::default();
            let mut alone = Exact::default();
            for &number in stream {
                observe(&mut sketch, &mut alone, number);
                let least = sketch.entries.iter().map(|entry| entry.count).min();
                prop_assert_eq!(Some(sketch.entries[sketch.smallest].count), least);
                *exact.0.entry(number).or_default() += 1;
            }
            prop_assert_eq!(sketch.observed(), stream.len() as u64);
            check(&merge(&[&sketch]), &alone)?;
            sketches.push(sketch);
        }
        let sketches: Vec<_> = sketches.iter().collect();
        check(&merge(&sketches), &exact)?;
    }
}

#[test]
fn few_keys_are_counted_exactly() {
    let mut sketch = Sketch::default();
    let mut exact = Exact::default();
    for number in 0..ENTRIES as u64 {
        for _ in 0..=number {
            observe(&mut sketch, &mut exact, number);
        }
    }
    let merged = merge(&[&sketch]);
    assert_eq!(merged.len(), ENTRIES);
    for entry in merged {
        assert_eq!((entry.count, entry.error), (entry.text + 1, 0));
    }
}

/// The clients of a flood: 1 million, or as many as `TOLLGATE_FLOOD_CLIENTS` says.
fn flood() -> u64 {
    let wanted = std::env::var("TOLLGATE_FLOOD_CLIENTS").ok();
    wanted.and_then(|it| it.parse().ok()).unwrap_or(1_000_000)
}

/// Millions of keys that come once do not push out a client that makes 1 % of the requests,
/// and do not make the sketch grow.
#[test]
fn a_flood_of_new_keys_hides_no_frequent_one() {
    let mut sketch = Sketch::default();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut frequent = 0;
    let mut described = 0;
    for number in 0..flood() {
        let is_frequent = number % 100 == 0;
        let key = if is_frequent { 1 } else { rng.u128(..) };
        sketch.observe(key, Some(7), || described += 1);
        frequent += u64::from(is_frequent);
    }
    let merged = merge(&[&sketch]);
    let entry = merged.iter().find(|entry| entry.id == 1).expect("it is frequent");
    assert!(entry.count - entry.error <= frequent && frequent <= entry.count);
    assert!(entry.error <= sketch.observed() / ENTRIES as u64);
    assert_eq!((merged[0].id, merged[0].peak), (1, Some(7)));
    assert_eq!((merged.len(), sketch.places.len(), sketch.cells.len()), (ENTRIES, ENTRIES, CELLS));
    assert!(described < sketch.observed() / 2, "a text is made for new entries only: {described}");
}
