//! The lists of the last ten minutes, merged over all workers.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use tollgate_limiter::digest::{Principal, PrincipalId};

use super::sketch::{ENTRIES, Entry, Sketch, merge};
use super::{Sketches, Text};

/// Minutes that are kept.
const MINUTES: usize = 10;
/// Entries of a list that is kept: candidates of several workers beyond these cannot be
/// among the clients that the lists promise, but for rare streams.
const MAX_ENTRIES: usize = 4 * ENTRIES;

/// The lists of one process.
#[derive(Debug, Default)]
pub(crate) struct TopHistory(Mutex<Minutes>);

#[derive(Debug, Default)]
struct Minutes {
    workers: usize,
    /// What has arrived of each minute.
    minutes: BTreeMap<u64, HashMap<Box<str>, Arrived>>,
}

/// What has arrived of one policy and minute.
#[derive(Debug)]
enum Arrived {
    /// Some workers have not handed over their sketches yet.
    Some(Vec<Sketches>),
    /// All have.
    All { admitted: Merged, refused: Merged },
}

/// The list of one policy in one minute.
#[derive(Clone, Debug, Default)]
struct Merged {
    observed: u64,
    entries: Vec<Entry<Text>>,
}

/// The heaviest clients of one policy over some minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopList {
    /// All requests that the policy has judged.
    pub requests: u64,
    /// Of these, those that were refused.
    pub refused: u64,
    /// The clients with the most requests first.
    pub clients: Vec<Listed>,
}

/// One client of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its id.
    pub id: PrincipalId,
    /// What operators may see of its key.
    pub text: Text,
    /// Its requests: this number at most.
    pub requests: u64,
    /// Of these, those that were refused.
    pub refused: u64,
    /// By how many `requests` can be too high.
    pub error: u64,
}

impl TopHistory {
    pub(super) fn join(&self) {
        self.0.lock().workers += 1;
    }

    pub(super) fn leave(&self) {
        self.0.lock().workers -= 1;
    }

    /// Adds what one worker has counted in a minute.
    pub(super) fn add(&self, minute: u64, policies: HashMap<Box<str>, Sketches>) {
        let mut state = self.0.lock();
        let Minutes { workers, minutes } = &mut *state;
        for (policy, sketches) in policies {
            let arrived = minutes.entry(minute).or_default();
            match arrived.entry(policy).or_insert_with(|| Arrived::Some(Vec::new())) {
                Arrived::Some(all) => all.push(sketches),
                // A worker whose clock is late: what it tells is added as it is.
                Arrived::All { admitted, refused } => {
                    admitted.add(&merged([&sketches.admitted]));
                    refused.add(&merged([&sketches.refused]));
                }
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
        let state = self.0.lock();
        let mut names: Vec<_> = state.minutes.values().flat_map(HashMap::keys).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// The heaviest clients of a policy in the last `minutes` complete minutes, `most` of
    /// them.
    pub(crate) fn top(&self, policy: &str, minutes: usize, most: usize) -> TopList {
        let state = self.0.lock();
        let (mut admitted, mut refused) = (Merged::default(), Merged::default());
        for policies in state.minutes.values().rev().take(minutes) {
            if let Some(arrived) = policies.get(policy) {
                let lists = arrived.lists();
                admitted.add(&lists.0);
                refused.add(&lists.1);
            }
        }
        drop(state);
        list(admitted, refused, most)
    }
}

/// One list of what was admitted and what was refused.
fn list(admitted: Merged, refused: Merged, most: usize) -> TopList {
    let (requests, refusals) = (admitted.observed + refused.observed, refused.observed);
    let mut clients: BTreeMap<u128, Listed> = BTreeMap::new();
    let entries = admitted.entries.into_iter().map(|entry| (entry, false));
    for (entry, is_refused) in entries.chain(refused.entries.into_iter().map(|it| (it, true))) {
        let Entry { id, count, error, text } = entry;
        let listed = clients.entry(id).or_insert_with(|| Listed {
            id: Principal::from_bits(id).into(),
            text,
            requests: 0,
            refused: 0,
            error: 0,
        });
        listed.requests += count;
        listed.error += error;
        listed.refused += if is_refused { count } else { 0 };
    }
    let mut clients: Vec<_> = clients.into_values().collect();
    clients.sort_by_key(|it| (std::cmp::Reverse(it.requests), it.id));
    clients.truncate(most);
    TopList { requests, refused: refusals, clients }
}

impl Arrived {
    fn settle_if_complete(&mut self, workers: usize) {
        if matches!(self, Self::Some(all) if all.len() >= workers) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if matches!(self, Self::Some(_)) {
            let (admitted, refused) = self.lists();
            *self = Self::All { admitted, refused };
        }
    }

    fn lists(&self) -> (Merged, Merged) {
        match self {
            Self::Some(all) => (
                merged(all.iter().map(|it| &it.admitted)),
                merged(all.iter().map(|it| &it.refused)),
            ),
            Self::All { admitted, refused } => (admitted.clone(), refused.clone()),
        }
    }
}

fn merged<'s>(sketches: impl IntoIterator<Item = &'s Sketch<Text>>) -> Merged {
    let sketches: Vec<_> = sketches.into_iter().collect();
    let mut entries = merge(&sketches);
    entries.truncate(MAX_ENTRIES);
    Merged { observed: sketches.iter().map(|sketch| sketch.observed()).sum(), entries }
}

impl Merged {
    /// Adds the counts of another stream. A client that is in one list only had few requests
    /// in the other stream: they are not known, and are not added.
    fn add(&mut self, other: &Self) {
        self.observed += other.observed;
        let mut places: HashMap<u128, usize> =
            self.entries.iter().enumerate().map(|(place, entry)| (entry.id, place)).collect();
        for entry in &other.entries {
            if let Some(&place) = places.get(&entry.id) {
                self.entries[place].count += entry.count;
                self.entries[place].error += entry.error;
            } else {
                places.insert(entry.id, self.entries.len());
                self.entries.push(entry.clone());
            }
        }
        self.entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        self.entries.truncate(MAX_ENTRIES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketches(admitted: &[(u128, u64)], refused: &[(u128, u64)]) -> HashMap<Box<str>, Sketches> {
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
        history.add(5, sketches(&[(1, 10), (2, 3)], &[(2, 8)]));
        history.add(5, sketches(&[(1, 1)], &[]));
        history.add(6, sketches(&[(3, 2)], &[]));
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
    fn ten_minutes_are_kept_and_a_late_worker_is_heard() {
        let history = TopHistory::default();
        history.join();
        for minute in 0..30 {
            history.add(minute, sketches(&[(minute.into(), 1)], &[]));
        }
        assert_eq!(shown(&history, 100).len(), MINUTES);
        history.add(25, sketches(&[(25, 4)], &[]));
        assert!(shown(&history, 10).contains(&("client 25".to_owned(), 5, 0)));
    }

    #[test]
    fn lists_are_bounded_whatever_comes() {
        let history = TopHistory::default();
        (0..8).for_each(|_| history.join());
        for minute in 0..12 {
            for worker in 0..8_u128 {
                let keys: Vec<_> = (0..400).map(|key| (worker * 1000 + key, 1)).collect();
                history.add(minute, sketches(&keys, &keys));
            }
        }
        let state = history.0.lock();
        for arrived in state.minutes.values().flat_map(HashMap::values) {
            let (admitted, refused) = arrived.lists();
            assert!(matches!(arrived, Arrived::All { .. }), "a whole minute keeps no sketches");
            assert!(admitted.entries.len() <= MAX_ENTRIES && refused.entries.len() <= MAX_ENTRIES);
        }
    }
}
