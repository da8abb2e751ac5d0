//! The lists of the last ten minutes, merged over all workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_limiter::digest::{Principal, PrincipalId};
use tollgate_limiter::time::{Span, Timestamp};

use super::merged::{Merged, Streams, TopList};
use super::{Counted, Sketches};

/// Minutes that are kept.
const MINUTES: usize = 10;
/// Microseconds of a minute.
const MINUTE_US: u64 = 60_000_000;
/// How long workers show the minute in progress after it was read.
const READ_FOR: Span = Span::from_secs(15);

/// The lists of one process.
#[derive(Debug, Default)]
pub(crate) struct TopHistory {
    minutes: Mutex<Minutes>,
    /// Until when workers show the minute in progress, in microseconds.
    read_until_us: AtomicU64,
}

#[derive(Debug, Default)]
struct Minutes {
    workers: usize,
    /// Workers that there have been.
    joined: usize,
    /// What workers have shown of the minute in progress.
    shown: BTreeMap<usize, Counted>,
    /// What has arrived of each minute.
    minutes: BTreeMap<u64, HashMap<Box<str>, Arrived>>,
}

/// What has arrived of one policy and minute.
#[derive(Debug)]
enum Arrived {
    /// Some workers have not handed over their sketches yet.
    Some(Vec<Sketches>),
    /// All have.
    All(Streams),
}

impl TopHistory {
    /// Adds a worker, and returns its number.
    pub(super) fn join(&self) -> usize {
        let mut state = self.minutes.lock();
        state.workers += 1;
        state.joined += 1;
        state.joined
    }

    pub(super) fn leave(&self) {
        self.minutes.lock().workers -= 1;
    }

    /// Whether the minute in progress is read.
    pub(super) fn is_read(&self, now: Timestamp) -> bool {
        now.as_micros() < self.read_until_us.load(Ordering::Relaxed)
    }

    /// Shows what a worker has counted of the minute in progress.
    pub(super) fn show(&self, worker: usize, policies: Counted) {
        self.minutes.lock().shown.insert(worker, policies);
    }

    /// Has workers show the minute in progress for the next 15 s. Returns whether they did
    /// so already.
    pub(crate) fn read(&self, now: Timestamp) -> bool {
        let until_us = now.plus(READ_FOR).as_micros();
        self.read_until_us.swap(until_us, Ordering::Relaxed) > now.as_micros()
    }

    /// Adds what one worker has counted in a minute.
    pub(super) fn add(&self, worker: usize, minute: u64, policies: Counted) {
        let mut state = self.minutes.lock();
        let Minutes { workers, minutes, shown, .. } = &mut *state;
        shown.remove(&worker);
        for (policy, sketches) in policies {
            let arrived = minutes.entry(minute).or_default();
            match arrived.entry(policy).or_insert_with(|| Arrived::Some(Vec::new())) {
                Arrived::Some(all) => all.push(sketches),
                // A worker whose clock is late: what it tells is added as it is.
                Arrived::All(streams) => streams.add(&merged([&sketches])),
            }
        }
        for (_, policies) in minutes.iter_mut().filter(|(it, _)| **it < minute) {
            policies.values_mut().for_each(Arrived::settle);
        }
        if let Some(policies) = minutes.get_mut(&minute) {
            policies.values_mut().for_each(|arrived| arrived.settle_if_complete(*workers));
        }
        while minutes.len() > MINUTES {
            minutes.pop_first();
        }
    }

    /// The names of the policies that have judged requests in the last ten minutes.
    pub(crate) fn policies(&self) -> Vec<Box<str>> {
        let state = self.minutes.lock();
        let shown = state.shown.values().flat_map(HashMap::keys);
        let names = state.minutes.values().flat_map(HashMap::keys).chain(shown);
        let mut names: Vec<_> = names.cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// The heaviest clients of a policy in the last `minutes` complete minutes, or in the
    /// minute in progress if that is 0: `most` of them.
    pub(crate) fn top(&self, policy: &str, minutes: usize, most: usize) -> TopList {
        let state = self.minutes.lock();
        let mut sum = Streams::default();
        match minutes {
            0 => sum = state.in_progress(policy),
            _ => {
                let last = state.minutes.values().rev().take(minutes);
                let arrived = last.filter_map(|policies| policies.get(policy));
                arrived.for_each(|it| sum.add(&it.streams()));
            }
        }
        drop(state);
        sum.list(most)
    }

    /// What was counted of a policy in the minute in progress and the one before it.
    pub(crate) fn recent(&self, policy: &str, now: Timestamp) -> Streams {
        let first = Self::recent_from(now).as_micros() / MINUTE_US;
        let state = self.minutes.lock();
        let mut sum = state.in_progress(policy);
        for minute in state.minutes.range(first..).map(|(_, it)| it) {
            if let Some(arrived) = minute.get(policy) {
                sum.add(&arrived.streams());
            }
        }
        sum
    }

    /// The time from which on [`Self::recent`] counts.
    pub(crate) fn recent_from(now: Timestamp) -> Timestamp {
        Timestamp::from_micros((now.as_micros() / MINUTE_US).saturating_sub(1) * MINUTE_US)
    }

    /// The client of a policy with this id, if it is in a list of the last ten minutes.
    pub(crate) fn principal(&self, policy: &str, id: PrincipalId) -> Option<Principal> {
        let state = self.minutes.lock();
        let arrived = state.minutes.values().rev().filter_map(|it| it.get(policy));
        let found = arrived.map(Arrived::streams).find_map(|it| it.principal(id));
        found.or_else(|| state.in_progress(policy).principal(id))
    }
}

impl Minutes {
    /// What workers have shown of the minute in progress.
    fn in_progress(&self, policy: &str) -> Streams {
        let shown: Vec<_> = self.shown.values().filter_map(|it| it.get(policy)).collect();
        merged(shown)
    }
}

/// What several workers have counted.
fn merged<'s>(sketches: impl IntoIterator<Item = &'s Sketches> + Clone) -> Streams {
    Streams {
        admitted: Merged::of(sketches.clone().into_iter().map(|it| &it.admitted)),
        refused: Merged::of(sketches.into_iter().map(|it| &it.refused)),
    }
}

impl Arrived {
    fn settle_if_complete(&mut self, workers: usize) {
        if matches!(self, Self::Some(all) if all.len() >= workers) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if matches!(self, Self::Some(_)) {
            *self = Self::All(self.streams());
        }
    }

    fn streams(&self) -> Streams {
        match self {
            Self::Some(all) => merged(all),
            Self::All(streams) => streams.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::merged::MAX_ENTRIES;
    use super::*;

    fn sketches(admitted: &[(u128, u64)], refused: &[(u128, u64)]) -> Counted {
        let mut sketches = Sketches::default();
        for (stream, counts) in
            [(&mut sketches.admitted, admitted), (&mut sketches.refused, refused)]
        {
            for &(id, count) in counts {
                (0..count).for_each(|_| stream.observe(id, || format!("client {id}").into()));
            }
        }
        HashMap::from([("per-client".into(), sketches)])
    }

    fn shown(history: &TopHistory, minutes: usize) -> Vec<(String, u64, u64)> {
        let list = history.top("per-client", minutes, 10);
        list.clients.iter().map(|it| (it.text.to_string(), it.requests, it.refused)).collect()
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
        assert_eq!(history.policies(), [Box::<str>::from("per-client")]);
        assert_eq!(history.top("other", 10, 10), TopList::default());
    }

    #[test]
    fn the_minute_in_progress_is_shown_while_it_is_read() {
        let history = TopHistory::default();
        let (worker, now) = (history.join(), Timestamp::from_micros(1_000_000));
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
}
