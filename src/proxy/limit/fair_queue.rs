//! A queue that is fair among clients. Pure.
//!
//! Each client has a line of its own, in the order of its tickets. The clients take turns: in one
//! round, each of them is served once. So a client with a thousand waiting requests delays the
//! first request of another client by one request only. A client whose line was empty is the last
//! of the next round.
//!
//! A request that leaves costs no search through the clients: its client stays in the round until
//! its next turn, and [`FairQueue::remove`] drops such clients when they are as many as the others.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Clients of the current round among which [`FairQueue::take_in_turn`] looks, and requests of each
/// client.
const LOOKED_AT: usize = 64;
/// How often the first request of a client can be overtaken by later ones of the same client.
const MAX_OVERTAKEN: u32 = 8;
/// Clients without requests that may stay in any case.
const MAX_EMPTY: usize = 64;

/// Requests that wait, by client.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    lines: HashMap<K, VecDeque<Waiting<T>>>,
    /// The clients that have not been served in this round.
    turn: VecDeque<K>,
    /// The clients of the next round.
    later: VecDeque<K>,
    /// The requests in all lines.
    length: usize,
}

/// A request that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting<T> {
    /// Its number, which determines its place in the line of its client.
    pub ticket: u64,
    /// How often it was the first of its client, and a later one was preferred.
    overtaken: u32,
    /// What is done with it.
    pub item: T,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { lines: HashMap::default(), turn: VecDeque::new(), later: VecDeque::new(), length: 0 }
    }
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    /// The requests that wait.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Adds a request of a client. One with a lower ticket than others of the client is before them.
    pub fn push(&mut self, client: K, ticket: u64, item: T) {
        let line = self.lines.entry(client).or_insert_with(|| {
            self.later.push_back(client);
            VecDeque::new()
        });
        let place = line.partition_point(|it| it.ticket < ticket);
        line.insert(place, Waiting { ticket, overtaken: 0, item });
        self.length += 1;
    }

    /// Removes a request that leaves. None: it does not wait.
    pub fn remove(&mut self, client: K, ticket: u64) -> Option<T> {
        let line = self.lines.get_mut(&client)?;
        let place = line.binary_search_by_key(&ticket, |it| it.ticket).ok()?;
        let removed = line.remove(place)?;
        self.length -= 1;
        if self.turn.len() + self.later.len() > 2 * self.length + MAX_EMPTY {
            self.drop_empty();
        }
        Some(removed.item)
    }

    /// Whether a request is accepted.
    pub fn any(&self, mut accepts: impl FnMut(&T) -> bool) -> bool {
        let mut lines = self.turn.iter().chain(&self.later).filter_map(|it| self.lines.get(it));
        self.length > 0 && lines.any(|line| line.iter().any(|it| accepts(&it.item)))
    }

    /// All requests that wait, in no order.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.lines.values_mut().flatten().map(|it| &mut it.item)
    }

    /// Takes the next request that is accepted.
    pub fn take(&mut self, mut accepts: impl FnMut(&T) -> bool) -> Option<Waiting<T>> {
        if self.length == 0 {
            return None;
        }
        for _ in 0..2 {
            let mut index = 0;
            while let Some(client) = self.turn.get(index).copied() {
                let line = self.lines.get(&client);
                if line.is_none_or(VecDeque::is_empty) {
                    self.turn.remove(index);
                    self.lines.remove(&client);
                    continue;
                }
                let place = line.and_then(|line| line.iter().position(|it| accepts(&it.item)));
                if let Some(place) = place {
                    return self.serve(index, place);
                }
                index += 1;
            }
            // The next round begins. Clients whose requests were not accepted remain before the
            // others.
            self.turn.append(&mut self.later);
        }
        None
    }

    /// Takes a request that is accepted, of a client that has its turn in the current round. Within a
    /// round the order does not matter, so this is as fair to clients as [`Self::take`]. It is one of
    /// the first requests of its client: the first one waits for [`MAX_OVERTAKEN`] others at most.
    pub fn take_in_turn(&mut self, accepts: impl Fn(&T) -> bool) -> Option<Waiting<T>> {
        if self.turn.is_empty() {
            self.turn.append(&mut self.later);
        }
        let place = |client: &K| {
            let line = self.lines.get(client)?;
            let most = if line.front()?.overtaken < MAX_OVERTAKEN { LOOKED_AT } else { 1 };
            line.iter().take(most).position(|it| accepts(&it.item))
        };
        let mut places = self.turn.iter().take(LOOKED_AT).map(place).enumerate();
        let (index, place) = places.find_map(|(index, place)| Some((index, place?)))?;
        if place > 0
            && let Some(first) = self.lines.get_mut(&self.turn[index]).and_then(VecDeque::front_mut)
        {
            first.overtaken += 1;
        }
        self.serve(index, place)
    }

    /// Takes a request out of the line of the client with this index in the round.
    fn serve(&mut self, index: usize, place: usize) -> Option<Waiting<T>> {
        let client = self.turn.remove(index)?;
        let line = self.lines.get_mut(&client)?;
        let served = line.remove(place)?;
        if line.is_empty() {
            self.lines.remove(&client);
        } else {
            self.later.push_back(client);
        }
        self.length -= 1;
        Some(served)
    }

    /// Forgets the clients without requests.
    fn drop_empty(&mut self) {
        self.lines.retain(|_, line| !line.is_empty());
        let Self { lines, turn, later, .. } = self;
        turn.retain(|it| lines.contains_key(it));
        later.retain(|it| lines.contains_key(it));
    }
}

#[cfg(test)]
mod tests;
