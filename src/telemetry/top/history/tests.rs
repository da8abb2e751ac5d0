//! The lists of several workers and minutes.

use super::super::merged::MAX_ENTRIES;
use super::super::{ClientText, WorkerTop};
use super::*;

fn sketches(admitted: &[(u128, u64)], refused: &[(u128, u64)]) -> Counted {
    let mut counted = Counted::default();
    let sketches = counted.of(&"per-client".into());
    for (stream, counts) in [(&mut sketches.admitted, admitted), (&mut sketches.refused, refused)] {
        for &(id, count) in counts {
            (0..count).for_each(|_| {
                stream.observe(id, u16::try_from(count).ok(), || format!("client {id}").into());
            });
        }
    }
    counted
}

fn shown(history: &TopHistory, minutes: usize) -> Vec<(String, u64, u64)> {
    let list = history.top("per-client", minutes, 10);
    list.clients.iter().map(|it| (it.text.shown.to_string(), it.requests, it.refused)).collect()
}

#[test]
fn a_list_is_the_sum_of_all_workers_and_minutes() {
    let history = TopHistory::default();
    history.join();
    history.join();
    history.add(0, 5, sketches(&[(1, 10), (2, 3)], &[(2, 8)]));
    history.add(0, 5, sketches(&[(1, 1)], &[]));
    history.add(0, 6, sketches(&[(3, 2)], &[]));
    let of = |name: &str, requests, refused| (name.to_owned(), requests, refused);
    assert_eq!(shown(&history, 1), [of("client 3", 2, 0)]);
    let expected = [of("client 1", 11, 0), of("client 2", 11, 8), of("client 3", 2, 0)];
    let mut found = shown(&history, 10);
    found.sort();
    assert_eq!(found, expected);
    let list = history.top("per-client", 10, 1);
    assert_eq!((list.requests, list.refused, list.clients.len()), (24, 8, 1));
    assert!(history.policies().iter().map(|it| &**it).eq(["per-client"]));
    assert_eq!(history.top("other", 10, 10), TopList::default());
}

/// The minutes of the future were the last ones until the clock had caught up.
#[test]
fn after_the_clock_was_set_back_the_lists_go_on() {
    let history = Arc::new(TopHistory::default());
    let worker = WorkerTop::new(&history);
    let at = |minute: u64| Timestamp::from_micros(minute * MINUTE_US + 5_000_000);
    for minute in 100..110 {
        history.add(0, minute, sketches(&[(1, 2)], &[]));
        worker.housekeep(at(minute + 1));
    }
    assert_eq!(shown(&history, 10), [("client 1".to_owned(), 20, 0)]);
    worker.housekeep(at(51));
    history.add(0, 50, sketches(&[(2, 3)], &[]));
    assert_eq!(shown(&history, 10), [("client 2".to_owned(), 3, 0)]);
    // Another worker has read the clock a little later.
    history.add(0, 51, sketches(&[(3, 2)], &[]));
    worker.housekeep(Timestamp::from_micros(51 * MINUTE_US - 1));
    assert_eq!(shown(&history, 1), [("client 3".to_owned(), 2, 0)]);
}

#[test]
fn the_minute_in_progress_is_shown_while_it_is_read() {
    let history = TopHistory::default();
    let worker = history.join();
    let now = Timestamp::from_micros(1_000_000);
    assert!(!history.is_read(now) && !history.read(now));
    assert!(history.is_read(now) && history.read(now));
    assert!(!history.is_read(now.plus(Span::from_secs(15))));
    history.show(worker, sketches(&[(1, 2)], &[]));
    history.show(worker, sketches(&[(1, 3)], &[(1, 1)]));
    assert_eq!(shown(&history, 0), [("client 1".to_owned(), 4, 1)]);
    history.add(worker, 7, sketches(&[(1, 5)], &[]));
    assert_eq!(shown(&history, 0), []);
    assert_eq!(shown(&history, 1), [("client 1".to_owned(), 5, 0)]);
}

#[test]
fn the_recent_minutes_are_those_of_now_whatever_was_counted_before() {
    let history = TopHistory::default();
    let worker = history.join();
    let at = |minute: u64| Timestamp::from_micros(minute * MINUTE_US + 5_000_000);
    for minute in [1, 8, 9] {
        history.add(worker, minute, sketches(&[(minute.into(), 3)], &[]));
    }
    history.show(worker, sketches(&[(9, 1)], &[(10, 1)]));
    let recent = |now| history.recent("per-client", now).list(10);
    let ids = |now| recent(now).clients.iter().map(|it| it.requests).collect::<Vec<_>>();
    assert_eq!(ids(at(10)), [4, 1]);
    assert_eq!(ids(at(9)), [4, 3, 1]);
    assert_eq!(ids(at(20)), [1, 1]);
    assert_eq!(TopHistory::recent_from(at(10)), Timestamp::from_micros(9 * MINUTE_US));
    let principal = Principal::from_bits(8);
    assert_eq!(history.principal("per-client", principal.into()), Some(principal));
    assert_eq!(history.principal("other", principal.into()), None);
}

/// The last minute with requests was the last complete one, however long ago it was, and its clients
/// were kept until there were requests in ten other minutes.
#[test]
fn minutes_without_requests_are_among_the_last_ones() {
    let history = Arc::new(TopHistory::default());
    history.keep_whole(true);
    let worker = WorkerTop::new(&history);
    let at = |minute: u64| Timestamp::from_micros(minute * MINUTE_US + 1_000_000);
    worker.housekeep(at(46));
    history.add(1, 46, sketches(&[(1, 8)], &[]));
    let listed = [("client 1".to_owned(), 8, 0)];
    worker.housekeep(at(47));
    assert_eq!(shown(&history, 1), listed);
    worker.housekeep(at(48));
    assert_eq!(shown(&history, 1), []);
    assert_eq!(shown(&history, 2), listed);
    let client = Principal::from_bits(1);
    let is_known = || history.principal("per-client", client.into()).is_some();
    for minute in 49..=56 {
        worker.housekeep(at(minute));
    }
    assert_eq!((shown(&history, 9), shown(&history, 10)), (vec![], listed.to_vec()));
    assert!(is_known() && history.text("per-client", client).is_some());
    worker.housekeep(at(57));
    assert_eq!(shown(&history, 10), []);
    assert!(!is_known() && history.text("per-client", client).is_none());
    assert!(history.policies().is_empty());
}

#[test]
fn ten_minutes_are_kept_and_a_late_worker_is_heard() {
    let history = TopHistory::default();
    history.join();
    for minute in 0..30 {
        history.add(0, minute, sketches(&[(minute.into(), 1)], &[]));
    }
    assert_eq!(shown(&history, 100).len(), MINUTES);
    history.add(0, 25, sketches(&[(25, 4)], &[]));
    assert!(shown(&history, 10).contains(&("client 25".to_owned(), 5, 0)));
}

#[test]
fn lists_are_bounded_whatever_comes() {
    let history = TopHistory::default();
    for _ in 0..8 {
        history.join();
    }
    for minute in 0..12 {
        for worker in 0..8_u128 {
            let keys: Vec<_> = (0..400).map(|key| (worker * 1000 + key, 1)).collect();
            history.add(0, minute, sketches(&keys, &keys));
        }
    }
    let state = history.minutes.lock();
    for arrived in state.minutes.values().flat_map(HashMap::values) {
        let Streams { admitted, refused } = arrived.streams();
        assert!(matches!(arrived, Arrived::All(_)), "a whole minute keeps no sketches");
        assert!(admitted.entries.len() <= MAX_ENTRIES && refused.entries.len() <= MAX_ENTRIES);
    }
}

/// What a client had used at most is known over minutes, workers and both streams.
#[test]
fn the_largest_use_of_a_limit_is_listed() {
    let history = TopHistory::default();
    history.join();
    history.join();
    // The value of each observation is their number here.
    history.add(0, 5, sketches(&[(1, 700), (2, 5)], &[(1, 900)]));
    history.add(0, 5, sketches(&[(1, 850)], &[]));
    history.add(0, 6, sketches(&[(2, 4)], &[]));
    let list = history.top("per-client", 10, 10);
    let used: Vec<_> = list.clients.iter().map(|it| it.used).collect();
    assert_eq!(used, [Some(900), Some(5)]);
    // The plan is that of the largest one.
    let mut counted = sketches(&[(3, 10)], &[]);
    let stream = &mut counted.of(&"per-client".into()).admitted;
    let other = || ClientText::from("it has a counter");
    let text = stream.observe(3, Some(950), other).expect("it is the largest one");
    text.plan = Some("pro".into());
    assert!(stream.observe(3, Some(940), other).is_none());
    history.add(0, 6, sketches(&[(3, 20)], &[(3, 30)]));
    history.add(0, 7, counted);
    let list = history.top("per-client", 10, 10);
    let client = list.clients.iter().find(|it| it.used == Some(950)).expect("it is listed");
    assert_eq!(client.text.plan.as_deref(), Some("pro"));
}

/// A minute in which this client was counted, with its whole key.
fn whole(id: u128) -> Counted {
    let mut counted = Counted::default();
    let sketches = counted.of(&"per-client".into());
    let text = || ClientText {
        whole: Some(format!("abc {id}").into()),
        ..ClientText::from("header x ab…")
    };
    sketches.admitted.observe(id, None, text);
    sketches.refused.observe(id, None, text);
    counted
}

#[test]
fn whole_keys_are_known_while_they_are_kept_and_then_forgotten() {
    let history = TopHistory::default();
    let first = history.join();
    let second = history.join();
    let known = |id| history.whole_key("per-client", Principal::from_bits(id)).is_some();
    // By default nothing is kept, whatever a worker tells.
    history.add(first, 1, whole(1));
    history.show(first, whole(2));
    history.keep_whole(true);
    assert!(!known(1) && !known(2));
    // Of a complete minute, of one that a worker has not handed over, and of the one in progress.
    history.add(first, 2, whole(3));
    history.add(second, 2, whole(3));
    history.add(first, 3, whole(4));
    history.show(first, whole(5));
    assert!(known(3) && known(4) && known(5) && !known(6));
    let key = history.whole_key("per-client", Principal::from_bits(3));
    assert_eq!(key.as_ref().map(WholeKey::as_str), Some("abc 3"));
    assert!(history.whole_key("other", Principal::from_bits(3)).is_none());
    history.keep_whole(false);
    history.keep_whole(true);
    assert!(!known(3) && !known(4) && !known(5));
    assert!(history.principal("per-client", Principal::from_bits(3).into()).is_some());
}
