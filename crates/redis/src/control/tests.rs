//! Two nodes on one real server.

use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::store::MemoryStore;

use super::super::testing::{PATIENCE, Process, run, settings};
use super::*;

async fn node(server: &Process) -> ControlStore {
    let settings = settings(server.topology(), PATIENCE);
    let secret = Arc::new(SharedSecret::new(Secret::random()));
    let state = NodeState::new((*settings).clone(), Arc::new(MemoryStore::new(10)), secret);
    let node = ControlStore::connect(&Arc::new(state));
    node.settled().await;
    node
}

async fn read(node: &ControlStore) -> ReadEntries {
    node.entries(None).await.expect("Redis answers").expect("no mark is known")
}

#[test]
fn an_entry_is_written_only_over_the_version_that_its_writer_has_seen() {
    run(async {
        let server = Process::start(&[]);
        let one = node(&server).await;
        let other = node(&server).await;
        assert_eq!(read(&one).await, ReadEntries { mark: None, entries: vec![] });
        let first = one.write_entry("p", &Expected::Absent, Some(b"1")).await.expect("absent");
        let known = read(&other).await;
        assert_eq!(known.entries, [("p".to_owned(), first.clone(), b"1".to_vec())]);
        assert_eq!(other.entries(known.mark.as_deref()).await, Ok(None));
        let seen = Expected::Version(first);
        let second = other.write_entry("p", &seen, Some(b"2")).await.expect("it is current");
        for expected in [&seen, &Expected::Absent] {
            for value in [Some(&b"3"[..]), None] {
                let written = one.write_entry("p", expected, value).await;
                assert!(matches!(written, Err(WriteError::Stale)), "{written:?}");
            }
        }
        let changed = one.entries(known.mark.as_deref()).await.expect("Redis answers");
        assert_eq!(changed.expect("the mark differs").entries[0].1, second);
        one.write_entry("p", &Expected::Anything, None).await.expect("it is forced");
        let read = read(&other).await;
        assert!(read.entries.is_empty() && read.mark.is_some());
    });
}

#[test]
fn entries_have_a_bound_in_number_and_length() {
    run(async {
        let server = Process::start(&[]);
        let node = node(&server).await;
        let long = [b'x'; 4097];
        let written = node.write_entry("p", &Expected::Absent, Some(&long)).await;
        assert!(matches!(written, Err(WriteError::TooLong)));
        for index in 0..256 {
            let name = index.to_string();
            node.write_entry(&name, &Expected::Absent, Some(&long[1..])).await.expect("room");
        }
        let written = node.write_entry("p", &Expected::Anything, Some(b"1")).await;
        assert!(matches!(written, Err(WriteError::Full)));
        node.write_entry("7", &Expected::Anything, Some(b"1")).await.expect("it has room");
        // Another program may write what it likes.
        server.command(&["HSET", "tollgate:meta:patches", "q", "short", "r", &"y".repeat(9000)]);
        assert_eq!(read(&node).await.entries.len(), 256);
        for index in 0..256 {
            node.write_entry(&index.to_string(), &Expected::Anything, None).await.expect("removed");
        }
        let read = read(&node).await;
        let values: Vec<_> = read.entries.iter().map(|it| (&*it.0, it.2.len())).collect();
        assert_eq!(values, [("q", 0), ("r", 0)]);
    });
}

#[test]
fn entries_are_written_again_after_redis_has_lost_them_and_never_over_others() {
    run(async {
        let server = Process::start(&[]);
        let node = node(&server).await;
        node.write_entry("p", &Expected::Absent, Some(b"1")).await.expect("absent");
        let known = read(&node).await;
        server.command(&["FLUSHALL"]);
        assert_eq!(read(&node).await, ReadEntries { mark: None, entries: vec![] });
        node.restore_entries(&known).await.expect("Redis answers");
        assert_eq!(read(&node).await, known);
        node.write_entry("p", &Expected::Anything, None).await.expect("it is there");
        node.restore_entries(&known).await.expect("Redis answers");
        assert!(read(&node).await.entries.is_empty());
    });
}

#[test]
fn nodes_are_listed_with_their_records_which_expire() {
    run(async {
        let server = Process::start(&[]);
        let one = node(&server).await;
        let other = node(&server).await;
        for node in [&one, &other] {
            server.command(&["HSET", "tollgate:meta:nodes", &node.node_id(), "1"]);
        }
        one.write_record(b"{}").await.expect("Redis answers");
        other.write_record(&[b'x'; 5000]).await.expect("it is left out");
        let mut expected = vec![
            NodeRecord { id: one.node_id(), record: Some(b"{}".to_vec()) },
            NodeRecord { id: other.node_id(), record: None },
        ];
        expected.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(other.records().await, Ok(expected));
        let key = format!("tollgate:meta:node:{}", one.node_id());
        let left: u64 = server.command(&["TTL", &key]).parse().expect("a number");
        assert!((1..=15).contains(&left), "{left}");
    });
}

#[test]
fn figures_are_published_for_a_short_time_and_have_a_bound() {
    run(async {
        let server = Process::start(&[]);
        let one = node(&server).await;
        let other = node(&server).await;
        assert_eq!(one.is_watched().await, Ok(false));
        other.watch().await.expect("Redis answers");
        assert_eq!(one.is_watched().await, Ok(true));
        let left: u64 = server.command(&["TTL", "tollgate:meta:watch"]).parse().expect("a number");
        assert!((10..=15).contains(&left), "{left}");
        one.publish_figures(b"{}").await.expect("Redis answers");
        let figures = || other.figures(vec![one.node_id(), other.node_id()]);
        let read = figures().await;
        let (text, age) = read[0].published.clone().expect("it has published");
        assert_eq!((&text[..], &read[1].published), (&b"{}"[..], &None));
        assert!(age < std::time::Duration::from_secs(6), "{age:?}");
        let key = format!("tollgate:meta:figures:{}", one.node_id());
        server.command(&["PEXPIRE", &key, "2000"]);
        let age = figures().await[0].published.clone().expect("it is there").1;
        assert!((4000..6000).contains(&age.as_millis()), "{age:?}");
        // What is too long is neither published nor read.
        let long = "x".repeat(ControlStore::MAX_FIGURES_BYTES + 1);
        one.publish_figures(long.as_bytes()).await.expect("it is left out");
        assert_eq!(figures().await[0].published.clone().expect("the old ones").0, b"{}");
        server.command(&["SET", &key, &long]);
        assert_eq!(figures().await[0].published, None);
    });
}
