//! One file with several handles, like those of several processes.

use super::*;
use crate::digest::{Counter, Principal};

fn key(bits: u128) -> Key {
    Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(1) }
}

fn limit(units: u64) -> Option<Override> {
    Some(Override::Limited { units, window: None })
}

fn file(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("overrides.redb")
}

#[test]
fn an_override_is_stored_under_one_secret() {
    let directory = tempfile::tempdir().unwrap();
    let made = OverridesFile::open(&file(&directory)).unwrap();
    assert_eq!(made.get(key(1)).unwrap(), None);
    made.put(key(1), limit(5)).unwrap();
    made.put(key(2), Some(Override::Unlimited)).unwrap();
    let again = OverridesFile::open(&file(&directory)).unwrap();
    assert_eq!(again.secret().expose(), made.secret().expose());
    assert_eq!(again.get(key(1)).unwrap(), limit(5));
    again.put(key(1), None).unwrap();
    assert_eq!(made.get(key(1)).unwrap(), None);
    assert_eq!(made.get(key(2)).unwrap(), Some(Override::Unlimited));
}

#[test]
fn an_open_handle_sees_the_changes_of_others_and_their_marks() {
    let directory = tempfile::tempdir().unwrap();
    let writer = OverridesFile::open(&file(&directory)).unwrap();
    let reader = Opened::open(&file(&directory)).unwrap();
    assert_eq!(reader.read(&[key(1)]).unwrap(), [Some(None)]);
    assert_eq!(reader.marks().unwrap(), []);
    let mut seen = Vec::new();
    for units in 1..=3 {
        writer.put(key(65), limit(units)).unwrap();
        assert_eq!(reader.read(&[key(1), key(65)]).unwrap(), [Some(None), Some(limit(units))]);
        let marks = reader.marks().unwrap();
        assert_eq!((marks.len(), marks[0].0), (1, 1));
        assert!(!seen.contains(&marks[0].1), "a change has a mark of its own");
        seen.push(marks[0].1);
    }
}

#[test]
fn a_thousand_overrides_written_by_several_threads_are_all_stored() {
    let directory = tempfile::tempdir().unwrap();
    let made = OverridesFile::open(&file(&directory)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let made = &made;
            scope.spawn(move || {
                for n in 0..250 {
                    let bits = thread * 250 + n;
                    made.put(key(u128::from(bits) << 64), limit(bits + 1)).unwrap();
                }
            });
        }
    });
    let keys: Vec<_> = (0..1000).map(|bits: u128| key(bits << 64)).collect();
    let said = Opened::open(&file(&directory)).unwrap().read(&keys).unwrap();
    for (units, said) in (1..).zip(said) {
        assert_eq!(said, Some(limit(units)));
    }
}

#[test]
fn a_file_of_another_format_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let other = file(&directory);
    let text = "not a database".repeat(1000);
    fs::write(&other, &text).unwrap();
    let error = OverridesFile::open(&other).unwrap_err().to_string();
    assert!(error.contains("overrides.redb"), "{error}");
    assert_eq!(fs::read_to_string(&other).unwrap(), text);
    let nowhere = directory.path().join("no/such/overrides.redb");
    let error = OverridesFile::open(&nowhere).unwrap_err().to_string();
    assert!(error.contains("make its directory"), "{error}");
}
