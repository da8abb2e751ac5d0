//! Refusals in order, under a flood, and read while they are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate_core::algorithm::Retry;
use tollgate_core::digest::Principal;
use tollgate_core::time::{Span, Timestamp};

use super::places::{LASTS, MAX_KEPT, MAX_OF_KEY};
use super::*;

const START: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

/// A refusal of this client under this policy, so long after the one before that it may replace it.
fn keep(worker: &WorkerRefusals, policy: &Arc<str>, client: u128, id: &str) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    let passed = Span::from_micros(calls * LASTS.as_micros());
    assert!(worker.admits(policy, Principal::from_bits(client), START.plus(passed)));
    keep_at(START.plus(passed), worker, policy, client, id);
}

fn keep_at(time: Timestamp, worker: &WorkerRefusals, policy: &Arc<str>, client: u128, id: &str) {
    worker.keep(&Refused {
        time,
        request_id: id,
        policy,
        client: Principal::from_bits(client),
        text: "ip 192.0.2.0/24",
        whole: Some(&format!("ip 192.0.2.{client}").into()),
        plan: None,
        api_key: None,
        limit: 3,
        used: 3,
        unit: None,
        retry: Retry::After(Span::SECOND),
        route: "all",
        source: "store",
        method: "GET",
        path: "/",
    });
}

fn ids(refusals: &[Refusal]) -> Vec<&str> {
    refusals.iter().map(|it| &*it.request_id).collect()
}

#[test]
fn refusals_of_all_workers_and_policies_are_listed_in_order() {
    let rings = Arc::<RefusalRings>::default();
    let workers = [WorkerRefusals::new(&rings), WorkerRefusals::new(&rings)];
    let policies: [Arc<str>; 2] = ["a".into(), "b".into()];
    for (index, id) in ["0", "1", "2", "3", "4"].iter().enumerate() {
        keep(&workers[index % 2], &policies[index / 3], 1, id);
    }
    let (newest, has_more) = rings.newest(None, None, 3);
    assert_eq!((ids(&newest), has_more), (vec!["4", "3", "2"], true));
    let (older, has_more) = rings.newest(None, Some(newest[2].sequence), 3);
    assert_eq!((ids(&older), has_more), (vec!["1", "0"], false));
    assert_eq!(ids(&rings.newest(Some("b"), None, 9).0), ["4", "3"]);
    assert_eq!(ids(&rings.newest(Some("c"), None, 9).0), [""; 0]);
    let (first, next, lost) = rings.since(0, 2);
    assert_eq!((ids(&first), next, lost), (vec!["0", "1"], 2, 0));
    let (rest, next, lost) = rings.since(next, 9);
    assert_eq!((ids(&rest), next, lost), (vec!["2", "3", "4"], 5, 0));
    assert_eq!(rings.since(next, 9), (vec![], 5, 0));
    assert_eq!(ids(&rings.of_request("3")), ["3"]);
    keep(&workers[0], &policies[0], 2, "3");
    assert_eq!(rings.of_request("3").len(), 2, "clients choose ids");
    assert!(rings.of_request("none").is_empty() && rings.oldest().is_some());
    drop(workers);
    assert!(rings.newest(None, None, 9).0.is_empty());
}

#[test]
fn a_flood_of_one_client_leaves_the_refusals_of_others() {
    let rings = Arc::<RefusalRings>::default();
    let worker = WorkerRefusals::new(&rings);
    let policy = Arc::from("a");
    for client in 0..30 {
        keep(&worker, &policy, client, "quiet");
    }
    for number in 0..20_000 {
        keep(&worker, &policy, 99, &number.to_string());
    }
    let (kept, next, lost) = rings.since(0, 1000);
    assert_eq!((kept.len(), next), (30 + MAX_OF_KEY, 20_030));
    assert_eq!(lost, 20_030 - 38);
    let last: Vec<String> = (20_000 - MAX_OF_KEY..20_000).map(|it| it.to_string()).collect();
    assert_eq!(ids(&kept[30..]), last, "the last ones of the client are kept");
}

#[test]
fn a_flood_of_clients_keeps_the_last_refusals() {
    let rings = Arc::<RefusalRings>::default();
    let worker = WorkerRefusals::new(&rings);
    let policy = Arc::from("a");
    for client in 0..5_000 {
        keep(&worker, &policy, client, "x");
    }
    let (kept, _, lost) = rings.since(0, 10_000);
    assert_eq!(kept.len(), MAX_KEPT);
    assert_eq!(kept[0].sequence, 5_000 - 256);
    assert_eq!(lost, 5_000 - 256);
}

#[test]
fn of_a_flood_within_a_tenth_of_a_second_the_first_refusals_are_kept() {
    let rings = Arc::<RefusalRings>::default();
    let worker = WorkerRefusals::new(&rings);
    let policy = Arc::from("a");
    let observe = |client, id: &str, time| {
        if worker.admits(&policy, Principal::from_bits(client), time) {
            keep_at(time, &worker, &policy, client, id);
        }
    };
    for number in 0..1_000_u64 {
        observe(99, &number.to_string(), START.plus(Span::from_micros(number)));
    }
    observe(1, "quiet", START.plus(Span::from_millis(50)));
    observe(99, "later", START.plus(LASTS));
    let (kept, next, lost) = rings.since(0, 1000);
    assert_eq!(ids(&kept), ["1", "2", "3", "4", "5", "6", "7", "quiet", "later"]);
    assert_eq!((next, lost), (1_002, 1_002 - 9), "those that are not kept are counted as lost");
}

#[test]
fn the_refusals_of_a_removed_policy_are_forgotten_until_it_is_there_again() {
    let rings = Arc::<RefusalRings>::default();
    let worker = WorkerRefusals::new(&rings);
    let policies: [Arc<str>; 2] = ["a".into(), "b".into()];
    policies.iter().for_each(|policy| keep(&worker, policy, 1, policy));
    rings.retain(|name| name == "b");
    assert_eq!(ids(&rings.newest(None, None, 9).0), ["b"]);
    keep(&worker, &policies[0], 1, "again");
    assert_eq!(ids(&rings.newest(None, None, 9).0), ["again", "b"]);
    assert_eq!(worker.own.borrow().len(), 2);
}

#[test]
fn whole_keys_are_known_while_they_are_kept_and_then_forgotten() {
    let rings = Arc::<RefusalRings>::default();
    let worker = WorkerRefusals::new(&rings);
    let policy = Arc::from("a");
    let whole = |client| {
        let key = rings.whole_key("a", Principal::from_bits(client));
        key.map(|key| key.as_str().to_owned())
    };
    keep(&worker, &policy, 1, "before");
    rings.keep_whole(true);
    assert!(worker.keeps_whole() && whole(1).is_none());
    keep(&worker, &policy, 1, "since");
    keep(&worker, &policy, 2, "since");
    assert_eq!((whole(1), whole(3)), (Some("ip 192.0.2.1".to_owned()), None));
    assert_eq!(rings.whole_key("b", Principal::from_bits(1)), None);
    let (read, _) = rings.newest(None, None, 1);
    rings.keep_whole(false);
    keep(&worker, &policy, 2, "after");
    rings.keep_whole(true);
    assert_eq!((whole(1), whole(2)), (None, None));
    assert_eq!(rings.newest(None, None, 9).0.len(), 4);
    assert!(read[0].whole.is_some() && !format!("{read:?}").contains("192.0.2.2"));
}

/// Each refusal is told once or counted as lost, also while other threads add refusals.
#[test]
fn a_reader_misses_no_refusal_without_knowing() {
    const EACH: u64 = 4_000;
    let rings = Arc::<RefusalRings>::default();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u128)
            .map(|number| {
                let rings = Arc::clone(&rings);
                scope.spawn(move || {
                    let worker = WorkerRefusals::new(&rings);
                    let policy = Arc::from("a");
                    (0..EACH)
                        .for_each(|it| keep(&worker, &policy, number << 64 | u128::from(it), "x"));
                    worker
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut next = 0;
            let mut told = 0;
            let mut lost = 0;
            loop {
                let is_last = is_done.load(Ordering::Acquire);
                let (found, after, missed) = rings.since(next, 100);
                assert!(found.is_sorted_by_key(|it| it.sequence));
                assert!(found.iter().all(|it| (next..after).contains(&it.sequence)));
                let count = u64::try_from(found.len()).expect("at most 100");
                (next, told, lost) = (after, told + count, lost + missed);
                if is_last && count == 0 {
                    return (next, told, lost);
                }
            }
        });
        // The rings of a worker that has ended are gone.
        let workers: Vec<WorkerRefusals> =
            writers.into_iter().map(|it| it.join().expect("no panic")).collect();
        is_done.store(true, Ordering::Release);
        let (next, told, lost) = reader.join().expect("no panic");
        assert_eq!((next, told + lost), (2 * EACH, 2 * EACH));
        assert!(told >= 2 * 256, "{told}");
        drop(workers);
    });
}
