//! Keys in a file, as an operator writes them and a node reads them.

use super::*;
use crate::api_keys::{KeyRecord, TeamRecord};

fn record(number: u64) -> (KeyId, Vec<u8>) {
    let id = KeyId::from_bits(number);
    let key = KeyRecord::new(id, KeyDigest::from_bytes([7; 32]));
    (id, key.to_stored().unwrap())
}

fn write<'w>(id: KeyId, expected: &'w Expected, record: &'w [u8]) -> KeyWrite<'w> {
    KeyWrite { id, expected, record, lasts: None, foreign: &[] }
}

#[test]
fn a_key_is_written_once_and_then_only_with_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.redb");
    let file = KeysFile::open(&path).unwrap();
    let (id, bytes) = record(1);
    assert_eq!(file.read_keys(&[id]), Ok(vec![None]));
    let version = file.write_key(write(id, &Expected::Absent, &bytes)).unwrap();
    let again = file.write_key(write(id, &Expected::Absent, &bytes));
    assert_eq!(again, Err(StorageError::Stale));
    let stored = file.read_keys(&[id]).unwrap().remove(0).unwrap();
    assert_eq!((&stored.version, &stored.bytes), (&version, &bytes));
    let other = KeysFile::open(&path).unwrap();
    let version = Expected::Version(version);
    let newer = other.write_key(write(id, &version, b"{}")).unwrap();
    assert_eq!(file.write_key(write(id, &version, b"{}")), Err(StorageError::Stale));
    assert_eq!(file.read_keys(&[id]).unwrap()[0].as_ref().unwrap().version, newer);
}

#[test]
fn each_write_sets_a_new_mark_and_a_refused_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.redb");
    let file = KeysFile::open(&path).unwrap();
    let marks = || Opened::open(&path).unwrap().marks().unwrap();
    assert_eq!(marks(), []);
    let (id, bytes) = record(1);
    file.write_key(write(id, &Expected::Absent, &bytes)).unwrap();
    let first = marks();
    assert_eq!((first.len(), first[0].0), (1, part_of_id(id)));
    file.write_key(write(id, &Expected::Absent, &bytes)).unwrap_err();
    assert_eq!(marks(), first);
    let team = TeamRecord::new("acme").to_stored().unwrap();
    let team = TeamWrite { name: "acme", expected: &Expected::Absent, record: &team };
    file.write_team(team).unwrap();
    assert_eq!(marks().len(), 2);
}

#[test]
fn an_imported_key_is_found_by_its_digest_and_belongs_to_one_id() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeysFile::open(&directory.path().join("keys.redb")).unwrap();
    let digest = KeyDigest::from_bytes([7; 32]);
    let one = record(1);
    let other = record(2);
    let foreign = [digest];
    let imported = |(id, bytes): &(KeyId, Vec<u8>)| {
        file.write_key(KeyWrite { foreign: &foreign, ..write(*id, &Expected::Absent, bytes) })
    };
    imported(&one).unwrap();
    assert_eq!(imported(&other), Err(StorageError::Taken(one.0)));
    assert_eq!(file.id_of(&digest), Ok(Some(one.0)));
    let opened = Opened::open(&file.path).unwrap();
    let found = opened.keys(&[Sought::Digest(digest), Sought::Id(other.0)]).unwrap();
    assert_eq!(found[0].record(), Some(&*one.1));
    assert_eq!(found[1], ReadRecord::Absent);
}

#[test]
fn ids_are_listed_by_part_and_ended_records_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeysFile::open(&directory.path().join("keys.redb")).unwrap();
    let records: Vec<_> = (0..100).map(record).collect();
    for (id, bytes) in &records {
        file.write_key(write(*id, &Expected::Absent, bytes)).unwrap();
    }
    let mut listed = Vec::new();
    for part in 0..crate::store::overrides::PARTS {
        let ids = file.ids(part, None, 100).unwrap();
        if let Some(first) = ids.first() {
            assert_eq!(file.ids(part, Some(*first), 100).unwrap(), ids[1..]);
            assert_eq!(file.ids(part, None, 1).unwrap(), [*first]);
        }
        listed.extend(ids);
    }
    listed.sort_unstable();
    let mut all: Vec<KeyId> = records.iter().map(|(id, _)| *id).collect();
    all.sort_unstable();
    assert_eq!(listed, all);
    let version = file.read_keys(&[all[0]]).unwrap()[0].clone().unwrap().version;
    let expected = Expected::Version(version);
    let ends = KeyWrite { lasts: Some(Span::ZERO), ..write(all[0], &expected, b"{}") };
    file.write_key(ends).unwrap();
    file.store_uses(&[(all[0], Timestamp::default()), (all[1], Timestamp::default())]).unwrap();
    let records = file.read_keys(&all[..2]).unwrap();
    assert!(records[0].is_none() && records[1].as_ref().unwrap().used.is_some());
}

/// Writes a record that ends after `lasts`, in whatever state the present one is.
fn write_with_end(file: &KeysFile, id: KeyId, lasts: Span, foreign: &[KeyDigest]) {
    let stored = file.read_keys(&[id]).unwrap().remove(0).unwrap();
    let expected = Expected::Version(stored.version);
    let ends = KeyWrite { lasts: Some(lasts), foreign, ..write(id, &expected, b"{}") };
    file.write_key(ends).unwrap();
}

/// Removes what has ended by then.
fn remove_ended_after(file: &KeysFile, wait: Span) {
    let database = existing(&file.path).unwrap();
    let transaction = database.begin_write().unwrap();
    remove_ended(&transaction, Clock::System.wall().plus(wait)).unwrap();
    transaction.commit().unwrap();
}

/// A key that was revoked twice had two ends. The later one removed the key that was made again
/// under the same id.
#[test]
fn a_record_has_one_end_and_a_new_one_under_the_same_id_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeysFile::open(&directory.path().join("keys.redb")).unwrap();
    let (id, bytes) = record(1);
    file.write_key(write(id, &Expected::Absent, &bytes)).unwrap();
    write_with_end(&file, id, Span::from_secs(100), &[]);
    write_with_end(&file, id, Span::from_secs(300), &[]);
    remove_ended_after(&file, Span::from_secs(200));
    assert!(file.read_keys(&[id]).unwrap()[0].is_some(), "the last write says how long it stays");
    write_with_end(&file, id, Span::from_secs(100), &[]);
    remove_ended_after(&file, Span::from_secs(200));
    assert!(file.read_keys(&[id]).unwrap()[0].is_none());
    file.write_key(write(id, &Expected::Absent, &bytes)).unwrap();
    remove_ended_after(&file, Span::from_secs(400));
    assert!(file.read_keys(&[id]).unwrap()[0].is_some(), "the ends were those of another record");
}

/// The digests of a key stayed for ever, so it could not be imported again.
#[test]
fn the_digests_of_a_key_end_with_its_record() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeysFile::open(&directory.path().join("keys.redb")).unwrap();
    let rotated = KeyDigest::from_bytes([7; 32]);
    let last = KeyDigest::from_bytes([8; 32]);
    let other = KeyDigest::from_bytes([9; 32]);
    let (id, bytes) = record(1);
    let foreign = [rotated, last];
    file.write_key(KeyWrite { foreign: &foreign, ..write(id, &Expected::Absent, &bytes) }).unwrap();
    let (stays, bytes) = record(2);
    let foreign = [other];
    file.write_key(KeyWrite { foreign: &foreign, ..write(stays, &Expected::Absent, &bytes) })
        .unwrap();
    write_with_end(&file, id, Span::from_secs(100), &[last]);
    assert_eq!(file.id_of(&last), Ok(Some(id)));
    remove_ended_after(&file, Span::from_secs(200));
    assert_eq!([file.id_of(&rotated), file.id_of(&last)], [Ok(None), Ok(None)]);
    assert_eq!(file.id_of(&other), Ok(Some(stays)));
}

#[test]
fn another_file_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    fs::write(&text, "not a database").unwrap();
    assert!(KeysFile::open(&text).is_err());
    let error = KeysFile::open(&directory.path().join("none/keys.redb")).unwrap_err();
    assert!(error.to_string().contains("make its directory"), "{error}");
}

#[test]
fn a_file_that_is_gone_is_not_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.redb");
    let file = KeysFile::open(&path).unwrap();
    let (id, bytes) = record(1);
    fs::remove_file(&path).unwrap();
    let written = file.write_key(write(id, &Expected::Absent, &bytes));
    assert!(matches!(written, Err(StorageError::Away(_))), "{written:?}");
    assert!(file.store_uses(&[(id, Timestamp::default())]).is_err());
    assert!(!path.exists());
}
