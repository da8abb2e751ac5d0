//! The figures of the last ten minutes: what the counters have grown by in each second.
//!
//! Once a second the control thread reads the sums of all workers ([`Totals`]) and keeps the
//! growth. The time of a growth is measured, so a rate is right also if the control thread
//! was late. Memory is bounded: 600 seconds of the node, and of each of at most
//! [`MAX_POLICIES`] policies the decisions of these seconds, and all its counters of the last
//! five minutes in steps of five seconds.

mod marks;
mod policies;

use std::collections::VecDeque;

use parking_lot::Mutex;
use tollgate_core::time::{Span, Timestamp};

use super::metrics::{NodeCounts, PolicyCounts, Totals};
use marks::Marks;
use policies::Policies;
pub use policies::PolicySteps;

/// The seconds that are kept.
pub const SECONDS: usize = 600;
/// The policies whose last minutes are kept: the first ones by name.
const MAX_POLICIES: usize = 1000;

/// The figures of some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// When it ended, by the wall clock.
    pub ended: Timestamp,
    /// How long it was.
    pub took: Span,
    /// What was counted in it.
    pub counts: NodeCounts,
    /// Requests in progress at its end.
    pub active: u64,
    /// The number of workers.
    pub workers: u64,
    /// The processor time of all workers in microseconds, and that of the busiest one.
    pub busy_us: (u64, u64),
}

/// Some time in steps, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The figures of the node.
    pub node: Vec<Period>,
    /// The decisions of policies, each with as many steps as the node.
    pub policies: Vec<PolicySteps>,
}

/// The figures of the last minutes of one node.
#[derive(Debug)]
pub struct History(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The sums at the last reading, and its time by a clock that never goes back.
    read: Totals,
    read_at: Timestamp,
    seconds: VecDeque<Period>,
    policies: Policies,
    marks: Marks,
}

impl History {
    /// Begins at `now`, the time of a clock that never goes back, when the counters are these.
    pub fn new(now: Timestamp, totals: Totals) -> Self {
        Self(Mutex::new(State {
            read: totals,
            read_at: now,
            seconds: VecDeque::with_capacity(SECONDS),
            policies: Policies::new(SECONDS, MAX_POLICIES),
            marks: Marks::default(),
        }))
    }

    /// Keeps what has been counted since the last reading. `wall`: the same time as `now`
    /// by the wall clock.
    pub fn add(&self, totals: Totals, now: Timestamp, wall: Timestamp) {
        let mut state = self.0.lock();
        let took = now.since(state.read_at);
        if took.is_zero() {
            return;
        }
        let busy = totals.busy_us.iter().map(|(worker, us)| {
            us.saturating_sub(state.read.busy_us.get(worker).copied().unwrap_or(*us))
        });
        let busy: Vec<u64> = busy.collect();
        let period = Period {
            ended: wall,
            took,
            counts: totals.node.growth(&state.read.node),
            active: totals.active,
            workers: u64::try_from(busy.len()).unwrap_or(u64::MAX),
            busy_us: (busy.iter().sum(), busy.iter().max().copied().unwrap_or(0)),
        };
        let none = PolicyCounts::default();
        let grown = totals.policies.iter().take(MAX_POLICIES).map(|(name, counts)| {
            (&**name, counts.growth(state.read.policies.get(name).unwrap_or(&none)))
        });
        let grown: Vec<_> = grown.filter(|(_, growth)| !growth.is_zero()).collect();
        state.policies.add(&grown);
        state.marks.add(took, grown);
        if state.seconds.len() == SECONDS {
            state.seconds.pop_front();
        }
        state.seconds.push_back(period);
        (state.read, state.read_at) = (totals, now);
    }

    /// The last second. None: there was none yet.
    pub fn latest(&self) -> Option<Period> {
        self.0.lock().seconds.back().cloned()
    }

    /// The last `seconds` seconds as one period. None: there was none yet.
    pub fn last(&self, seconds: usize) -> Option<Period> {
        let state = self.0.lock();
        let first = state.seconds.len().saturating_sub(seconds);
        let mut rest = state.seconds.range(first..).cloned();
        let first = rest.next()?;
        Some(rest.fold(first, |sum, next| sum.followed_by(&next)))
    }

    /// The last `seconds` seconds in steps of `step_s`, the oldest first. Steps begin at
    /// multiples of their length, so the first and the last one may be shorter. Of policies, the
    /// `most_policies` with the most refusals are listed.
    pub fn steps(&self, seconds: usize, step_s: u64, most_policies: usize) -> Steps {
        let state = self.0.lock();
        let first = state.seconds.len().saturating_sub(seconds);
        let mut node: Vec<Period> = Vec::new();
        let mut lengths: Vec<usize> = Vec::new();
        let number = |period: &Period| {
            period.ended.as_micros().saturating_sub(1) / step_s.max(1).saturating_mul(1_000_000)
        };
        for second in state.seconds.range(first..) {
            match (node.last_mut(), lengths.last_mut()) {
                (Some(step), Some(length)) if number(step) == number(second) => {
                    *step = step.clone().followed_by(second);
                    *length += 1;
                }
                _ => {
                    node.push(second.clone());
                    lengths.push(1);
                }
            }
        }
        let policies = match most_policies {
            0 => Vec::new(),
            most => state.policies.steps(&lengths, most),
        };
        Steps { node, policies }
    }

    /// What a policy has counted in the last `span` or a little more, and in which time.
    pub fn policy(&self, name: &str, span: Span) -> (Span, PolicyCounts) {
        self.0.lock().marks.last(name, span)
    }

    /// The policies that have counted anything, by name, with their counts since the process
    /// began.
    pub fn policies(&self) -> Vec<(Box<str>, PolicyCounts)> {
        let state = self.0.lock();
        state.read.policies.iter().map(|(name, counts)| (name.clone(), counts.clone())).collect()
    }

    /// What a policy has counted since the process began.
    pub fn policy_total(&self, name: &str) -> PolicyCounts {
        self.0.lock().read.policies.get(name).cloned().unwrap_or_default()
    }
}

impl Period {
    /// This one and the one after it as one.
    fn followed_by(mut self, next: &Self) -> Self {
        self.counts.add(&next.counts);
        let busy_us = (self.busy_us.0 + next.busy_us.0, self.busy_us.1 + next.busy_us.1);
        let took = Span::from_micros(self.took.as_micros() + next.took.as_micros());
        Self { took, busy_us, counts: self.counts, ..next.clone() }
    }
}

#[cfg(test)]
mod tests;
