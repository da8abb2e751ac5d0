//! One set of rules, tried on the requests of a log.
//!
//! The decisions are those of the gateway: the same routes, the same policies, and a memory
//! store. Time is what the caller says.

mod counts;
mod known;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::StatusCode;
use smallvec::SmallVec;
use tollgate_core::decision::{Ending, Headroom, Lease, RateLimiter};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::meter::{MeterSpec, Metered, Unsettled};
use tollgate_core::policy::{
    AccessList, AccessStep, AccessVerdicts, ClientSettings, Policy, Subject,
};
use tollgate_core::request::RequestView;
use tollgate_core::routes::{Route, Rules, Unmatched};
use tollgate_core::store::{MemoryStore, Store};
use tollgate_core::time::{Span, Timestamp};

pub(super) use self::counts::{Fate, Totals, digest_of};

use self::counts::Counts;
use super::entry::Entry;
use super::facts::Facts;
use super::foreseen::Foreseen;
use super::lacking::lacking_of_list;
use super::peaks::Peaks;
use super::refused::{ClientName, Clients};

/// The most keys that a replay counts at the same time, whatever the file says.
const MAX_KEYS: usize = 2_000_000;
/// The most requests that wait for their end. Beyond it, the earliest ends early.
const MAX_OPEN: usize = 200_000;

/// The rules of a configuration that a replay needs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The name of the configuration, for people.
    pub name: String,
    /// All routes, in the order of the file.
    pub routes: Vec<Route>,
    /// All policies, in the order of the file.
    pub policies: Vec<Arc<Policy>>,
    /// How clients are identified.
    pub client: ClientSettings,
    /// The names of routes that hand what their policies refuse to a later route.
    pub overflowing: Vec<Arc<str>>,
    /// How many keys the memory store holds.
    pub max_keys: usize,
}

/// One set of rules with its counters, and what it has said.
#[derive(Debug)]
pub(super) struct Trial {
    rules: Rules,
    limiter: RateLimiter,
    policies: Vec<Arc<Policy>>,
    open: BinaryHeap<Reverse<Open>>,
    max_open: usize,
    sequence: u64,
    #[cfg(test)]
    room: usize,
    pub(super) counts: Counts,
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
        Self {
            rules,
            limiter: RateLimiter::new(store),
            policies: setup.policies.clone(),
            open: BinaryHeap::new(),
            max_open: MAX_OPEN,
            sequence: 0,
            #[cfg(test)]
            room: setup.max_keys,
            counts: Counts::new(&setup.policies, peaks),
        }
    }

    /// Also counts what each client is told.
    pub(super) fn with_clients(mut self) -> Self {
        let policies = self.policies.iter().map(|policy| &**policy);
        self.counts.clients = Some(Clients::new(policies));
        self
    }

    /// Its policies, in the order of their tallies.
    pub(super) fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// How many counters were forgotten for want of room.
    pub(super) fn forgotten(&self) -> u64 {
        match self.limiter.store() {
            Store::Memory(memory) => memory.forgiven().states,
            Store::Remote(_) => 0,
        }
    }

    /// For how many keys its counters have room.
    #[cfg(test)]
    pub(super) const fn room(&self) -> usize {
        self.room
    }

    /// The header fields that the rules read.
    pub(super) fn header_names(&self) -> impl Iterator<Item = http::HeaderName> {
        self.rules.guarded_names().cloned()
    }

    /// Decides over a request. `facts` are those of the log so far. Times do not go back.
    pub(super) fn judge(
        &mut self,
        request: &RequestView<'_>,
        entry: &Entry,
        facts: &Facts,
        now: Timestamp,
    ) -> Fate {
        self.end_until(now);
        if self.rules.has_disguised_name(request.headers()) {
            self.counts.totals.ambiguous += 1;
            return Fate::NotJudged;
        }
        let index = match self.rules.select(request) {
            Ok(index) => index,
            Err(Unmatched::NoRoute) => {
                self.counts.totals.no_route += 1;
                return Fate::NotJudged;
            }
            Err(Unmatched::Ambiguous) => {
                self.counts.totals.ambiguous += 1;
                return Fate::NotJudged;
            }
        };
        let route = self.rules.route(index);
        let Route { policies, access, .. } = route;
        let subject = self.rules.subject(request, index, now);
        if entry.has_address {
            match access_of(access, &subject, self.rules.clients().settings(), facts) {
                Access::Allowed => {}
                Access::Unknown => self.counts.totals.unlisted += 1,
                Access::Denied => {
                    self.counts.totals.denied += 1;
                    return Fate::NotJudged;
                }
            }
        }
        if lacks_credentials(route, entry) {
            self.counts.totals.unauthorized += 1;
            return Fate::NotJudged;
        }
        let decision = self.limiter.decide(policies, &subject, Headroom::default(), now);
        let mut decision = decision.now_or_never().expect("a memory store answers at once");
        let client = subject.client_ip();
        let fate = self.counts.add(&decision, client, |_| ClientName::Address(client), now);
        let lease = std::mem::take(&mut decision.lease);
        let delay = decision.delay;
        drop(decision);
        self.open(lease, |lease, sequence| Open::of(lease, entry, now.plus(delay), sequence));
        fate
    }

    /// Decides over a request that the route `index` takes, by those of its policies that can
    /// refuse it in this window. The others admit it.
    pub(super) fn judge_exceeding(
        &mut self,
        request: &RequestView<'_>,
        index: usize,
        entry: &Entry,
        now: Timestamp,
        verdicts: &[Foreseen],
        window: usize,
    ) {
        let mut policies = SmallVec::<[Arc<Policy>; 4]>::new();
        for (foreseen, policy) in verdicts.iter().zip(&self.rules.route(index).policies) {
            match foreseen {
                Foreseen::Exempt => {}
                Foreseen::Judges { windows, .. } if windows.contains(window) => {
                    policies.push(Arc::clone(policy));
                }
                Foreseen::Judges { policy, .. } => self.counts.tallies[*policy].judged += 1,
            }
        }
        if policies.is_empty() {
            return;
        }
        self.end_until(now);
        let subject = self.rules.subject(request, index, now);
        let decision = self.limiter.decide(&policies, &subject, Headroom::default(), now);
        let mut decision = decision.now_or_never().expect("a memory store answers at once");
        let client = subject.client_ip();
        self.counts.add(&decision, client, |_| ClientName::Address(client), now);
        let lease = std::mem::take(&mut decision.lease);
        drop(decision);
        self.open(lease, |lease, sequence| Open::of(lease, entry, now, sequence));
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
        let metered: SmallVec<[Metered; 1]> = self
            .lease
            .meters()
            .map(|meter| match meter {
                MeterSpec::Bytes { unit } => self.bytes.map(|bytes| bytes.div_ceil(unit.get())),
                MeterSpec::Header(_)
                | MeterSpec::Json(_)
                | MeterSpec::SseJson(_)
                | MeterSpec::Body(_)
                | MeterSpec::Usage { .. } => None,
            })
            .map(|cost| cost.map_or(Metered::AtLeast(0, Unsettled::Absent), Metered::Cost))
            .collect();
        let ending = Ending {
            status: self.status,
            request_bytes: Some(self.request_bytes),
            metered: &metered,
        };
        limiter.end(&self.lease, &ending, self.end);
    }
}

/// What access lists say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Allowed,
    Denied,
    /// A list compares what the log lacks, and would deny the request for want of it.
    Unknown,
}

/// What access lists say of a request. What is not certain denies it, as in the gateway. A list
/// that compares what the log lacks is not applied.
pub(super) fn access_of(
    lists: &[Arc<AccessList>],
    subject: &Subject<'_, '_>,
    client: &ClientSettings,
    facts: &Facts,
) -> Access {
    let denies = |lists: &[Arc<AccessList>]| {
        let mut verdicts = AccessVerdicts::default();
        let steps = [AccessStep::BeforeAuth, AccessStep::AfterAuth];
        steps.into_iter().any(|step| verdicts.ask(lists, step, subject).is_some())
    };
    if !denies(lists) {
        return Access::Allowed;
    }
    let is_known = |list: &&Arc<AccessList>| lacking_of_list(facts, client, list).is_empty();
    let known: SmallVec<[_; 4]> = lists.iter().filter(is_known).cloned().collect();
    if denies(&known) { Access::Denied } else { Access::Unknown }
}

/// Whether a request has no credential that its route accepts. A replay cannot check credentials,
/// so the status of the response tells it.
pub(super) fn lacks_credentials(route: &Route, entry: &Entry) -> bool {
    !route.auth.is_empty() && entry.status() == Some(StatusCode::UNAUTHORIZED)
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

#[cfg(test)]
mod tests;
