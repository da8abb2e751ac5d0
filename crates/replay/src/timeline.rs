//! The order in which the requests of a log arrived.
//!
//! Most logs note the end of a request, so that their lines are in the order of ends. A
//! request arrived at its end less its duration. Requests wait in a heap until the log has
//! come 60 s further; a request that is later than that takes its turn at once, and is
//! counted as late.
//!
//! Many logs note whole seconds only. Then the k requests of one second are placed at
//! (i + 1/2) / k. That is one guess; another one is that all of them came at the start of
//! the second. Each guess is a lane of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use super::entry::Entry;
use super::line::{Line, Mark};

const SECOND_US: u64 = 1_000_000;
/// How long a request waits for others, in the time of the log.
const HOLD_US: u64 = 60 * SECOND_US;
/// How long a second stays open for more of its requests: servers write logs in blocks.
const GRACE_S: u64 = 5;
/// The most requests that wait.
const MAX_WAITING: usize = 1_000_000;

/// Where the requests of one second are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// At even distances.
    Spread,
    /// At the start of the second.
    AtStart,
}

/// Puts requests into the order of their arrivals.
#[derive(Debug)]
pub(super) struct Timeline {
    /// Requests of open seconds, in the order of the log.
    seconds: BTreeMap<u64, Vec<(Mark, Rc<Entry>)>>,
    /// How many these are.
    open: usize,
    lanes: Vec<Lane>,
    newest_us: u64,
    max_waiting: usize,
    /// Whether any line noted whole seconds only.
    pub(super) has_whole_seconds: bool,
}

#[derive(Debug)]
struct Lane {
    placement: Placement,
    waiting: BinaryHeap<Reverse<Waiting>>,
    sequence: u64,
    /// The arrival of the last request that had its turn.
    passed_us: u64,
    late: u64,
}

#[derive(Debug)]
struct Waiting {
    at_us: u64,
    sequence: u64,
    entry: Rc<Entry>,
}

impl Waiting {
    fn order(&self) -> (u64, u64) {
        (self.at_us, self.sequence)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl Timeline {
    /// An empty one with these lanes.
    pub(super) fn new(placements: &[Placement]) -> Self {
        let lane = |&placement| Lane {
            placement,
            waiting: BinaryHeap::new(),
            sequence: 0,
            passed_us: 0,
            late: 0,
        };
        Self {
            seconds: BTreeMap::new(),
            open: 0,
            lanes: placements.iter().map(lane).collect(),
            newest_us: 0,
            max_waiting: MAX_WAITING,
            has_whole_seconds: false,
        }
    }

    /// Adds the request of a line.
    pub(super) fn push(&mut self, line: &Line<'_>, entry: Entry) {
        let entry = Rc::new(entry);
        self.newest_us = self.newest_us.max(line.time.us);
        if line.time.is_whole_second {
            self.has_whole_seconds = true;
            let second = line.time.us / SECOND_US;
            self.seconds.entry(second).or_default().push((line.mark, entry));
            self.open += 1;
            self.close_seconds();
        } else {
            let at_us = arrival(line.time.us, line.mark, &entry);
            self.lanes.iter_mut().for_each(|lane| lane.push(at_us, &entry));
        }
    }

    /// Places the requests of seconds that have passed.
    fn close_seconds(&mut self) {
        let newest_s = self.newest_us / SECOND_US;
        while let Some((&second, _)) = self.seconds.first_key_value() {
            if second + GRACE_S > newest_s && self.open <= self.max_waiting {
                return;
            }
            self.close_first();
        }
    }

    fn close_first(&mut self) {
        let Some((second, requests)) = self.seconds.pop_first() else { return };
        self.open -= requests.len();
        let count = u64::try_from(requests.len()).unwrap_or(u64::MAX);
        for (index, (mark, entry)) in (0_u64..).zip(requests) {
            for lane in &mut self.lanes {
                let within_us = match lane.placement {
                    Placement::Spread => (2 * index + 1) * SECOND_US / (2 * count),
                    Placement::AtStart => 0,
                };
                lane.push(arrival(second * SECOND_US + within_us, mark, &entry), &entry);
            }
        }
    }

    /// The next request of a lane whose turn it is, and when it arrived, in microseconds.
    pub(super) fn next(&mut self, lane: usize) -> Option<(u64, Rc<Entry>)> {
        let newest_us = self.newest_us;
        let most = self.max_waiting;
        let lane = self.lanes.get_mut(lane)?;
        let Reverse(first) = lane.waiting.peek()?;
        let is_due = first.at_us.saturating_add(HOLD_US) <= newest_us || lane.waiting.len() > most;
        is_due.then(|| lane.pop()).flatten()
    }

    /// The next request of a lane after the log has ended.
    pub(super) fn next_of_rest(&mut self, lane: usize) -> Option<(u64, Rc<Entry>)> {
        while !self.seconds.is_empty() {
            self.close_first();
        }
        self.lanes.get_mut(lane)?.pop()
    }

    /// How many requests were out of order by more than the time that others wait.
    pub(super) fn late(&self) -> u64 {
        self.lanes.first().map_or(0, |lane| lane.late)
    }
}

impl Lane {
    fn push(&mut self, at_us: u64, entry: &Rc<Entry>) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.waiting.push(Reverse(Waiting { at_us, sequence, entry: Rc::clone(entry) }));
    }

    fn pop(&mut self) -> Option<(u64, Rc<Entry>)> {
        let Reverse(Waiting { at_us, entry, .. }) = self.waiting.pop()?;
        if at_us < self.passed_us {
            self.late += 1;
        }
        self.passed_us = self.passed_us.max(at_us);
        Some((self.passed_us, entry))
    }
}

fn arrival(noted_us: u64, mark: Mark, entry: &Entry) -> u64 {
    match mark {
        Mark::Start => noted_us,
        Mark::End => noted_us.saturating_sub(entry.duration_us.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
