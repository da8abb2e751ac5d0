//! One set of rules, tried on the requests of a log.
//!
//! The decisions are those of the gateway: the same routes, the same policies, and a memory
//! store. Time is what the caller says.

mod known;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::StatusCode;
use smallvec::SmallVec;
use tollgate_limiter::decision::{Decision, Ending, Headroom, Lease, Outcome, RateLimiter};
use tollgate_limiter::digest::{Principal, Secret, SharedSecret};
use tollgate_limiter::meter::MeterSpec;
use tollgate_limiter::policy::{ClientSettings, Policy};
use tollgate_limiter::request::RequestView;
use tollgate_limiter::store::{MemoryStore, Store};
use tollgate_limiter::time::{Span, Timestamp};

use super::entry::Entry;
use super::known_entry::{KnownEntry, LoggedResult};
use super::peaks::Peaks;
use super::series::Series;
use super::tally::Tally;
use crate::routes::{Route, Rules, Unmatched};

/// The most keys that a replay counts at the same time, whatever the file says.
const MAX_KEYS: usize = 2_000_000;
/// The most requests that wait for their end. Beyond it, the earliest ends early.
const MAX_OPEN: usize = 200_000;

/// The rules of a configuration that a replay needs.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// All routes, in the order of the file.
    pub(crate) routes: Vec<Route>,
    /// All policies, in the order of the file.
    pub(crate) policies: Vec<Arc<Policy>>,
    /// How clients are identified.
    pub(crate) client: ClientSettings,
    /// How many keys the memory store holds.
    pub(crate) max_keys: usize,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is admitted.
    Admitted,
    /// It is refused by a policy.
    Refused,
    /// The gateway refuses it before any policy is asked.
    NotJudged,
}

/// What all policies together have said.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Requests with a decision.
    pub(super) judged: u64,
    /// Requests that at least one policy refuses.
    pub(super) refused: u64,
    /// Requests that are held before they go on.
    pub(super) held: u64,
    /// The longest time for which one is held.
    pub(super) longest_hold: Span,
    /// Requests that no route matches.
    pub(super) no_route: u64,
    /// Requests with more than one meaning.
    pub(super) ambiguous: u64,
    /// Decisions that are those of the log, if it has keys.
    pub(super) repeated: u64,
    /// Decisions that are not: another result, or another remainder.
    pub(super) different: u64,
    /// Counts over time.
    pub(super) series: Series,
}

impl Totals {
    fn add(&mut self, now: Timestamp, is_refused: bool, delay: Span) {
        self.judged += 1;
        self.refused += u64::from(is_refused);
        self.held += u64::from(!delay.is_zero());
        self.longest_hold = self.longest_hold.max(delay);
        self.series.add(now.as_secs(), is_refused);
    }

    /// Compares a decision with that of the log.
    fn compare(&mut self, known: &KnownEntry, fate: Fate, remaining: Option<u64>) {
        let is_same = match known.result {
            LoggedResult::Unknown => return,
            LoggedResult::Admitted => fate == Fate::Admitted,
            LoggedResult::Refused | LoggedResult::Denied => fate == Fate::Refused,
            LoggedResult::NotJudged => fate == Fate::NotJudged,
        };
        match is_same && known.remaining.is_none_or(|logged| Some(logged) == remaining) {
            true => self.repeated += 1,
            false => self.different += 1,
        }
    }
}

/// One set of rules with its counters, and what it has said.
#[derive(Debug)]
pub(super) struct Trial {
    rules: Rules,
    limiter: RateLimiter,
    policies: Vec<Arc<Policy>>,
    by_name: HashMap<Arc<str>, usize>,
    open: BinaryHeap<Reverse<Open>>,
    max_open: usize,
    sequence: u64,
    pub(super) tallies: Vec<Tally>,
    pub(super) totals: Totals,
    pub(super) peaks: Option<Peaks>,
}

/// An admitted request that owes something at its end.
#[derive(Debug)]
struct Open {
    end: Timestamp,
    sequence: u64,
    lease: Lease,
    status: Option<StatusCode>,
    request_bytes: u64,
    bytes: Option<u64>,
    /// The units that the policies of the lease have cost, if the log says it.
    spent: Option<SmallVec<[u64; 2]>>,
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.end, self.sequence).cmp(&(other.end, other.sequence))
    }
}

impl Trial {
    /// Rules with empty counters. With `peaks`, it also measures what each key uses.
    pub(super) fn new(setup: &Setup, peaks: Option<Peaks>) -> Self {
        let rules = rules(setup);
        let store = Store::Memory(Arc::new(MemoryStore::new(setup.max_keys.min(MAX_KEYS))));
        let names = setup.policies.iter().map(|policy| Arc::clone(&policy.name));
        Self {
            rules,
            limiter: RateLimiter::new(store),
            by_name: names.zip(0..).collect(),
            tallies: vec![Tally::default(); setup.policies.len()],
            policies: setup.policies.clone(),
            open: BinaryHeap::new(),
            max_open: MAX_OPEN,
            sequence: 0,
            totals: Totals::default(),
            peaks,
        }
    }

    /// Its policies, in the order of their tallies.
    pub(super) fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// How many counters were forgotten for want of room.
    pub(super) fn forgotten(&self) -> u64 {
        match self.limiter.store() {
            Store::Memory(memory) => memory.forgiven().states,
            Store::Redis(_) => 0,
        }
    }

    /// The header fields that the rules read.
    pub(super) fn header_names(&self) -> impl Iterator<Item = http::HeaderName> {
        self.rules.guarded_names().cloned()
    }

    /// Decides over a request. Times do not go back.
    pub(super) fn judge(
        &mut self,
        request: &RequestView<'_>,
        entry: &Entry,
        now: Timestamp,
    ) -> Fate {
        self.end_until(now);
        if self.rules.has_disguised_name(request.headers()) {
            self.totals.ambiguous += 1;
            return Fate::NotJudged;
        }
        let index = match self.rules.select(request) {
            Ok(index) => index,
            Err(Unmatched::NoRoute) => {
                self.totals.no_route += 1;
                return Fate::NotJudged;
            }
            Err(Unmatched::Ambiguous) => {
                self.totals.ambiguous += 1;
                return Fate::NotJudged;
            }
        };
        let subject = self.rules.subject(request, index, now);
        let policies = &self.rules.route(index).policies;
        let decision = self.limiter.decide(policies, &subject, Headroom::default(), now);
        let mut decision = decision.now_or_never().expect("a memory store answers at once");
        let counts = Counts {
            tallies: &mut self.tallies,
            totals: &mut self.totals,
            peaks: self.peaks.as_mut(),
            by_name: &self.by_name,
        };
        let fate = counts.add(&decision, subject.client_ip(), now);
        let (lease, delay) = (std::mem::take(&mut decision.lease), decision.delay);
        drop(decision);
        self.open(lease, |lease, sequence| Open::of(lease, entry, now.plus(delay), sequence));
        fate
    }

    /// Remembers a request that owes something at its end.
    fn open(&mut self, lease: Lease, open: impl FnOnce(Lease, u64) -> Open) {
        if lease.is_empty() {
            return;
        }
        self.sequence += 1;
        self.open.push(Reverse(open(lease, self.sequence)));
        if self.open.len() > self.max_open
            && let Some(Reverse(first)) = self.open.pop()
        {
            first.settle(&self.limiter);
        }
    }

    /// Counts a request that these policies admit, because its keys cannot exceed the limits.
    pub(super) fn admit(&mut self, policies: &[usize]) {
        for index in policies {
            if let Some(tally) = self.tallies.get_mut(*index) {
                tally.judged += 1;
            }
        }
    }

    fn end_until(&mut self, now: Timestamp) {
        while self.open.peek().is_some_and(|Reverse(first)| first.end <= now) {
            if let Some(Reverse(first)) = self.open.pop() {
                first.settle(&self.limiter);
            }
        }
    }
}

impl Open {
    /// A request that goes on at `forwarded`.
    fn of(lease: Lease, entry: &Entry, forwarded: Timestamp, sequence: u64) -> Self {
        Self {
            end: forwarded.plus(Span::from_micros(entry.duration_us.unwrap_or(0))),
            sequence,
            lease,
            status: entry.status(),
            // What is not known costs what a body of unknown length does.
            request_bytes: entry.request_bytes.unwrap_or(1),
            bytes: entry.bytes,
            spent: None,
        }
    }

    fn settle(self, limiter: &RateLimiter) {
        if let Some(spent) = &self.spent {
            return limiter.end_known(&self.lease, spent, self.end);
        }
        let metered: SmallVec<[Option<u64>; 1]> = self
            .lease
            .meters()
            .map(|meter| match meter {
                MeterSpec::Bytes { unit } => self.bytes.map(|bytes| bytes.div_ceil(unit.get())),
                MeterSpec::Header(_) | MeterSpec::Json(_) | MeterSpec::SseJson(_) => None,
            })
            .collect();
        let ending = Ending {
            status: self.status,
            request_bytes: Some(self.request_bytes),
            metered: &metered,
        };
        limiter.end(&self.lease, &ending, self.end);
    }
}

/// Where a decision is counted.
struct Counts<'t> {
    tallies: &'t mut [Tally],
    totals: &'t mut Totals,
    peaks: Option<&'t mut Peaks>,
    by_name: &'t HashMap<Arc<str>, usize>,
}

impl Counts<'_> {
    fn add(mut self, decision: &Decision<&Arc<Policy>>, client: IpAddr, now: Timestamp) -> Fate {
        for report in &decision.reports {
            let Some(&index) = self.by_name.get(&report.policy.name) else { continue };
            let key = digest_of(report.client);
            if let Some(peaks) = &mut self.peaks {
                peaks.add(index, key, report.cost, client, now);
            }
            self.tallies[index].add(report, now, key);
        }
        let lacking = match decision.outcome {
            Outcome::Deny(policy)
            | Outcome::Unverifiable(policy, _)
            | Outcome::Unauthorized(policy, _) => Some(policy),
            Outcome::Ambiguous(_) => {
                self.totals.ambiguous += 1;
                return Fate::NotJudged;
            }
            Outcome::Admit | Outcome::Refuse(_) | Outcome::Unavailable(_) => None,
        };
        for policy in decision.lacking.iter().copied().chain(lacking) {
            if let Some(&index) = self.by_name.get(&policy.name) {
                self.tallies[index].add_lacking(now);
            }
        }
        let is_refused = !matches!(decision.outcome, Outcome::Admit);
        self.totals.add(now, is_refused, decision.delay);
        if is_refused { Fate::Refused } else { Fate::Admitted }
    }
}

/// Whether whole seconds are too coarse for a policy: its window is shorter than 10 s.
pub(super) fn is_short(policy: &Policy) -> bool {
    let window = policy.algorithm.window();
    !window.is_zero() && window < Span::from_secs(10)
}

/// The rules of a setup. Keys are digests: a fixed secret makes every replay of a log the
/// same.
pub(super) fn rules(setup: &Setup) -> Rules {
    let secret = Arc::new(SharedSecret::new(Secret::from_bytes(*b"tollgate replay!")));
    Rules::new(setup.routes.clone(), setup.client.clone(), secret)
}

/// Bits of a principal that are as good as random.
pub(super) fn digest_of(client: Principal) -> u64 {
    u64::try_from(client.bits() & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
