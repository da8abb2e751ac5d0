//! Keys on a real server.

use std::sync::Arc;

use tollgate_core::api_keys::{KeyDigest, KeyId, Sought};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::store::MemoryStore;
use tollgate_core::store::keys::{
    Expected, KeyStorage as _, KeyWrite, ReadKeys as _, ReadRecord, StorageError, TeamWrite,
    Version, part_of_digest, part_of_id, part_of_team,
};
use tollgate_core::time::{Clock, Span, Timestamp};

use super::super::testing::{Process, eventually, run, settings};
use super::*;
use crate::control::ControlStore;
use crate::store::NodeState;

const PATIENCE: Duration = Duration::from_secs(2);
const RECORD: &[u8] = b"{\"id\":\"x\"}";

fn id(number: u64) -> KeyId {
    KeyId::from_bits(number)
}

fn write(id: KeyId, expected: &Expected) -> KeyWrite<'_> {
    KeyWrite { id, expected, record: RECORD, lasts: None, foreign: &[] }
}

struct Scene {
    control: ControlKeys,
    worker: WorkerKeys,
}

async fn scene(server: &Process) -> Scene {
    let settings = settings(server.topology(), PATIENCE);
    let memory = Arc::new(MemoryStore::new(1000));
    let secret = Arc::new(SharedSecret::new(Secret::random()));
    let node = Arc::new(NodeState::new((*settings).clone(), memory, secret));
    let control = ControlStore::connect(&node);
    control.settled().await;
    let control = control.keys();
    let store = crate::store::RedisStore::open(&node, Clock::System);
    let worker = WorkerKeys::beside(&store);
    eventually("the worker is connected", async || worker.0.marks().await.is_ok()).await;
    Scene { control, worker }
}

#[test]
fn a_key_is_away_before_the_store_has_begun_and_unknown_afterwards() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, worker } = scene(&server).await;
        let sought = [Sought::Id(id(1)), Sought::Digest(KeyDigest::from_bytes([1; 32]))];
        assert_eq!(worker.keys(&sought).await, [ReadRecord::NoSign, ReadRecord::NoSign]);
        let refused = control.write_key(write(id(1), &Expected::Absent)).await;
        assert_eq!(refused, Err(StorageError::NotBegun));
        assert_eq!(control.read_keys(&[id(1)]).await, Err(StorageError::NotBegun));
        assert_eq!(control.ids(0, None, 9).await, Err(StorageError::NotBegun));
        control.begin().await.unwrap();
        assert_eq!(worker.keys(&sought).await, [ReadRecord::Absent, ReadRecord::Absent]);
        control.write_key(write(id(1), &Expected::Absent)).await.unwrap();
        assert_eq!(worker.keys(&sought[..1]).await[0].record(), Some(RECORD));
        server.command(&["FLUSHALL"]);
        assert_eq!(worker.keys(&sought).await, [ReadRecord::NoSign, ReadRecord::NoSign]);
        let refused = control.write_key(write(id(2), &Expected::Absent)).await;
        assert_eq!(refused, Err(StorageError::NotBegun));
    });
}

#[test]
fn a_key_is_written_once_and_then_only_with_its_version() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, worker } = scene(&server).await;
        control.begin().await.unwrap();
        let written = control.write_key(write(id(1), &Expected::Absent)).await.unwrap();
        let version = written.check().unwrap();
        let again = control.write_key(write(id(1), &Expected::Absent)).await;
        assert_eq!(again, Err(StorageError::Stale));
        let stored = control.read_keys(&[id(1), id(2)]).await.unwrap();
        assert_eq!(stored[0].as_ref().map(|it| &it.version), Some(&version));
        assert_eq!(stored[1], None);
        let expected = Expected::Version(version);
        control.write_key(write(id(1), &expected)).await.unwrap();
        let late = control.write_key(write(id(1), &expected)).await;
        assert_eq!(late, Err(StorageError::Stale));
        assert_eq!(control.ids(part_of_id(id(1)), None, 9).await, Ok(vec![id(1)]));
        assert_eq!(control.ids(part_of_id(id(1)), Some(id(1)), 9).await, Ok(vec![]));
        assert!(worker.keys(&[Sought::Id(id(1))]).await[0].record().is_some());
    });
}

#[test]
fn each_change_sets_new_marks_for_its_parts() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, worker } = scene(&server).await;
        control.begin().await.unwrap();
        let mark = async |part| {
            let marks = worker.0.marks().await.unwrap();
            marks.into_iter().find(|(it, _)| *it == part).unwrap().1
        };
        let digest = KeyDigest::from_bytes([9; 32]);
        let part = part_of_id(id(1));
        let before = (mark(part).await, mark(part_of_digest(&digest)).await);
        let foreign = [digest];
        let imported = KeyWrite { foreign: &foreign, ..write(id(1), &Expected::Absent) };
        control.write_key(imported).await.unwrap();
        let after = (mark(part).await, mark(part_of_digest(&digest)).await);
        assert!(before.0 != after.0 && before.1 != after.1);
        assert_eq!(control.id_of(&digest).await, Ok(Some(id(1))));
        assert!(worker.keys(&[Sought::Digest(digest)]).await[0].record().is_some());
        let other = KeyWrite { foreign: &foreign, ..write(id(2), &Expected::Absent) };
        assert_eq!(control.write_key(other).await, Err(StorageError::Taken(id(1))));
        let before = mark(part_of_team("acme")).await;
        let team = TeamWrite { name: "acme", expected: &Expected::Absent, record: RECORD };
        control.write_team(team).await.unwrap();
        assert_eq!(control.write_team(team).await, Err(StorageError::Stale));
        assert_ne!(mark(part_of_team("acme")).await, before);
        assert_eq!(control.teams().await.unwrap().len(), 1);
        let teams = worker.teams(&["acme".into(), "other".into()]).await;
        assert_eq!((teams[0].record(), &teams[1]), (Some(RECORD), &ReadRecord::Absent));
    });
}

#[test]
fn the_record_of_a_revoked_key_ends_and_leaves_the_index() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, .. } = scene(&server).await;
        control.begin().await.unwrap();
        let lasts = Some(Span::from_millis(1));
        let write = KeyWrite { lasts, ..write(id(1), &Expected::Absent) };
        control.write_key(write).await.unwrap();
        let gone = async || control.read_keys(&[id(1)]).await == Ok(vec![None]);
        eventually("the record has ended", gone).await;
        assert_eq!(control.ids(part_of_id(id(1)), None, 9).await, Ok(vec![]));
    });
}

#[test]
fn the_ids_of_a_part_are_listed_in_their_order_and_no_more_than_asked_for() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, .. } = scene(&server).await;
        control.begin().await.unwrap();
        let part = part_of_id(id(0));
        let mut all: Vec<KeyId> = (0..5000).map(id).filter(|id| part_of_id(*id) == part).collect();
        all.sort_unstable();
        let written = all.iter().rev();
        futures_util::future::join_all(written.map(|id| {
            let write = write(*id, &Expected::Absent);
            control.write_key(write)
        }))
        .await
        .into_iter()
        .for_each(|written| drop(written.unwrap()));
        let mut listed = Vec::<KeyId>::new();
        let mut after = None;
        loop {
            let page = control.ids(part, after, 7).await.unwrap();
            assert!(page.len() <= 7);
            after = page.last().copied().or(after);
            listed.extend(&page);
            if page.len() < 7 {
                break;
            }
        }
        assert!(all.len() > 50);
        assert_eq!(listed, all);
    });
}

#[test]
fn the_last_use_is_noted_of_keys_that_exist_and_never_goes_back() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, worker } = scene(&server).await;
        control.begin().await.unwrap();
        control.write_key(write(id(1), &Expected::Absent)).await.unwrap();
        let at = |seconds| Timestamp::default().plus(Span::from_secs(seconds));
        worker.store_uses(&[(id(1), at(2000)), (id(2), at(2000))]).await;
        worker.store_uses(&[(id(1), at(1000))]).await;
        let stored = control.read_keys(&[id(1)]).await.unwrap();
        assert_eq!(stored[0].as_ref().unwrap().used, Some(at(2000)));
        assert!(!control.ids(part_of_id(id(2)), None, 9).await.unwrap().contains(&id(2)));
    });
}

#[test]
fn a_change_that_cannot_be_announced_is_written_and_says_so() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, .. } = scene(&server).await;
        control.begin().await.unwrap();
        let marks = control.access.names.marks();
        server.command(&["DEL", &marks]);
        server.command(&["SET", &marks, "of another kind"]);
        let written = control.write_key(write(id(1), &Expected::Absent)).await.unwrap();
        let stored = control.read_keys(&[id(1)]).await.unwrap().remove(0).unwrap();
        assert_eq!(stored.version, written.version);
        assert!(matches!(written.check(), Err(StorageError::NotAnnounced(_))));
    });
}

#[test]
fn a_backup_is_written_before_the_store_begins() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, worker } = scene(&server).await;
        let control = control.restoring();
        control.write_key(write(id(1), &Expected::Absent)).await.unwrap();
        assert_eq!(worker.keys(&[Sought::Id(id(2))]).await, [ReadRecord::NoSign]);
        assert!(worker.keys(&[Sought::Id(id(1))]).await[0].record().is_some());
        control.begin().await.unwrap();
        assert_eq!(worker.keys(&[Sought::Id(id(2))]).await, [ReadRecord::Absent]);
    });
}

/// An import into a store without its sign left the digest behind. A second import took the key for
/// one that is stored.
#[test]
fn a_refused_write_leaves_no_digest_behind() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, .. } = scene(&server).await;
        let digests = [1, 2, 3].map(|byte| KeyDigest::from_bytes([byte; 32]));
        let imported = |id, foreign| KeyWrite { foreign, ..write(id, &Expected::Absent) };
        let refused = control.write_key(imported(id(1), &digests[..1])).await;
        assert_eq!(refused.map(drop), Err(StorageError::NotBegun));
        control.begin().await.unwrap();
        assert_eq!(control.id_of(&digests[0]).await, Ok(None));
        control.write_key(imported(id(2), &digests[..1])).await.map(drop).unwrap();
        let two = [digests[1], digests[0]];
        let taken = control.write_key(imported(id(3), &two)).await;
        assert_eq!(taken.map(drop), Err(StorageError::Taken(id(2))));
        assert_eq!(control.id_of(&digests[1]).await, Ok(None));
        let stale = control.write_key(imported(id(2), &digests[2..])).await;
        assert_eq!(stale.map(drop), Err(StorageError::Stale));
        assert_eq!(control.id_of(&digests[2]).await, Ok(None));
    });
}

/// A revocation that was refused set the end of the digest: 30 days later the key, which was still
/// active, was not found.
#[test]
fn a_refused_revocation_sets_no_end_of_a_digest() {
    run(async {
        let server = Process::start(&[]);
        let Scene { control, .. } = scene(&server).await;
        control.begin().await.unwrap();
        let foreign = [KeyDigest::from_bytes([1; 32])];
        let imported = KeyWrite { foreign: &foreign, ..write(id(1), &Expected::Absent) };
        control.write_key(imported).await.map(drop).unwrap();
        let entry = control.access.names.digest(part_of_digest(&foreign[0]), &foreign[0]);
        let lasting = async || control.access.ask_one(&entry, cmd("PTTL").arg(&entry).take()).await;
        let other = Expected::Version(Version::random());
        let lasts = Some(Span::from_secs(1000));
        let stale = KeyWrite { lasts, foreign: &foreign, ..write(id(1), &other) };
        assert_eq!(control.write_key(stale).await.map(drop), Err(StorageError::Stale));
        assert_eq!(lasting().await, Ok(Value::Int(-1)));
        let stored = control.read_keys(&[id(1)]).await.unwrap().remove(0).unwrap();
        let seen = Expected::Version(stored.version);
        let revoked = KeyWrite { lasts, foreign: &foreign, ..write(id(1), &seen) };
        control.write_key(revoked).await.map(drop).unwrap();
        assert!(matches!(lasting().await, Ok(Value::Int(1..=1_000_000))));
    });
}
