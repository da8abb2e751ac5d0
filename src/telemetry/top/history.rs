//! The lists of the last ten minutes, merged over all workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_core::digest::{Principal, PrincipalId};
use tollgate_core::time::{Span, Timestamp};

use super::merged::{Merged, Streams, TopList};
use super::{ClientText, Counted, Sketches};
use crate::telemetry::WholeKey;

/// Minutes that are kept.
const MINUTES: usize = 10;
/// Microseconds of a minute.
const MINUTE_US: u64 = 60_000_000;
/// How long workers show the minute in progress after it was read.
const READ_FOR: Span = Span::from_secs(15);

/// The lists of one process.
#[derive(Debug, Default)]
pub struct TopHistory {
    minutes: Mutex<Minutes>,
    /// Until when workers show the minute in progress, in microseconds.
    read_until_us: AtomicU64,
    /// Whether whole keys are kept.
    keeps_whole: AtomicBool,
}

#[derive(Debug, Default)]
struct Minutes {
    workers: usize,
    /// Workers that there have been.
    joined: usize,
    /// What workers have shown of the minute in progress.
    shown: BTreeMap<usize, Counted>,
    /// What has arrived of each of the last minutes in which there were requests.
    minutes: BTreeMap<u64, HashMap<Arc<str>, Arrived>>,
    /// The last complete minute: workers hand over also minutes without requests.
    last: u64,
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
    pub fn join(&self) -> usize {
        let mut state = self.minutes.lock();
        state.workers += 1;
        state.joined += 1;
        state.joined
    }

    pub fn leave(&self) {
        self.minutes.lock().workers -= 1;
    }

    /// Whether the minute in progress is read.
    pub fn is_read(&self, now: Timestamp) -> bool {
        now.as_micros() < self.read_until_us.load(Ordering::Relaxed)
    }

    /// Whether whole keys are kept.
    pub fn keeps_whole(&self) -> bool {
        self.keeps_whole.load(Ordering::Relaxed)
    }

    /// Has whole keys kept or not from now on. If not, those that are known are forgotten; a
    /// worker forgets its own ones with the minute in progress.
    pub fn keep_whole(&self, is_kept: bool) {
        self.keeps_whole.store(is_kept, Ordering::Relaxed);
        if !is_kept {
            let mut state = self.minutes.lock();
            let Minutes { minutes, shown, .. } = &mut *state;
            shown.values_mut().for_each(Counted::forget_whole);
            let minutes = minutes.values_mut().flat_map(HashMap::values_mut);
            minutes.for_each(Arrived::forget_whole);
        }
    }

    /// Shows what a worker has counted of the minute in progress.
    pub fn show(&self, worker: usize, mut policies: Counted) {
        let mut state = self.minutes.lock();
        self.forget_what_is_not_kept(&mut policies);
        state.shown.insert(worker, policies);
    }

    /// The minutes must be locked.
    fn forget_what_is_not_kept(&self, policies: &mut Counted) {
        if !self.keeps_whole() {
            policies.forget_whole();
        }
    }

    /// Has workers show the minute in progress for the next 15 s. Returns whether they did
    /// so already.
    pub fn read(&self, now: Timestamp) -> bool {
        let until_us = now.plus(READ_FOR).as_micros();
        self.read_until_us.swap(until_us, Ordering::Relaxed) > now.as_micros()
    }

    /// Adds what one worker has counted in a minute.
    pub fn add(&self, worker: usize, minute: u64, mut policies: Counted) {
        let mut state = self.minutes.lock();
        self.forget_what_is_not_kept(&mut policies);
        let Minutes { workers, minutes, shown, last, .. } = &mut *state;
        shown.remove(&worker);
        *last = minute.max(*last);
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
        *minutes = minutes.split_off(&first_of(*last, MINUTES));
    }

    /// Forgets minutes that lie in the future at `now`: the clock was set back. They would stay
    /// the last ones until it has caught up.
    pub fn forget_future(&self, now: Timestamp) {
        // Another worker may have read the clock later.
        let this = now.as_micros() / MINUTE_US;
        let Minutes { minutes, last, .. } = &mut *self.minutes.lock();
        minutes.retain(|minute, _| *minute <= this + 1);
        if *last > this + 1 {
            *last = this.saturating_sub(1);
        }
    }

    /// The names of the policies that have judged requests in the last ten minutes.
    pub fn policies(&self) -> Vec<Arc<str>> {
        let state = self.minutes.lock();
        let shown = state.shown.values().flat_map(Counted::names);
        let names = state.minutes.values().flat_map(HashMap::keys).chain(shown);
        let mut names: Vec<_> = names.cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// The heaviest clients of a policy in the last `minutes` complete minutes, also those without
    /// requests, or in the minute in progress if that is 0: `most` of them.
    pub fn top(&self, policy: &str, minutes: usize, most: usize) -> TopList {
        let state = self.minutes.lock();
        let mut sum = Streams::default();
        match minutes {
            0 => sum = state.in_progress(policy),
            _ => {
                let first = first_of(state.last, minutes);
                let last = state.minutes.range(first..).map(|(_, policies)| policies);
                let arrived = last.filter_map(|policies| policies.get(policy));
                arrived.for_each(|it| sum.add(&it.streams()));
            }
        }
        drop(state);
        sum.list(most)
    }

    /// What was counted of a policy in the minute in progress and the one before it.
    pub fn recent(&self, policy: &str, now: Timestamp) -> Streams {
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
    pub fn recent_from(now: Timestamp) -> Timestamp {
        Timestamp::from_micros((now.as_micros() / MINUTE_US).saturating_sub(1) * MINUTE_US)
    }

    /// The client of a policy with this id, if it is in a list of the last ten minutes.
    pub fn principal(&self, policy: &str, id: PrincipalId) -> Option<Principal> {
        let state = self.minutes.lock();
        let arrived = state.minutes.values().rev().filter_map(|it| it.get(policy));
        let found = arrived.map(Arrived::streams).find_map(|it| it.principal(id));
        found.or_else(|| state.in_progress(policy).principal(id))
    }

    /// The text of this client of a policy, if a list of the last ten minutes has it.
    pub fn text(&self, policy: &str, client: Principal) -> Option<ClientText> {
        let state = self.minutes.lock();
        let arrived = state.minutes.values().rev().filter_map(|it| it.get(policy));
        let all = arrived.map(Arrived::streams).chain([state.in_progress(policy)]);
        all.into_iter().find_map(|it| it.text(client).cloned())
    }

    /// The whole key of this client of a policy, if a list of the last ten minutes has it.
    pub fn whole_key(&self, policy: &str, client: Principal) -> Option<WholeKey> {
        if !self.keeps_whole() {
            return None;
        }
        let state = self.minutes.lock();
        let arrived = state.minutes.values().rev().filter_map(|it| it.get(policy));
        let all = arrived.map(Arrived::streams).chain([state.in_progress(policy)]);
        all.into_iter().find_map(|it| it.whole_key(client).cloned())
    }
}

impl Minutes {
    /// What workers have shown of the minute in progress.
    fn in_progress(&self, policy: &str) -> Streams {
        let shown: Vec<_> = self.shown.values().filter_map(|it| it.get(policy)).collect();
        merged(shown)
    }
}

/// The first of so many minutes, of which `last` is the last one.
fn first_of(last: u64, minutes: usize) -> u64 {
    (last + 1).saturating_sub(u64::try_from(minutes).unwrap_or(u64::MAX))
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

    fn forget_whole(&mut self) {
        match self {
            Self::Some(all) => all.iter_mut().for_each(Sketches::forget_whole),
            Self::All(streams) => streams.forget_whole(),
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
mod tests;
