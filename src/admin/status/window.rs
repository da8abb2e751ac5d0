//! The figures that rules judge: what metrics show now, and how much they have grown.
//!
//! The metrics are read as for a scrape. Growth is kept in steps of 15 seconds over five
//! minutes. For counters that should never grow, the time of the last growth is enough.
//! Memory is bounded by the policies, routes and workers, of which there are few, and by
//! [`MAX_SUBJECTS`].

mod shares;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tollgate_core::time::{Span, Timestamp};

use self::shares::Shares;
use crate::telemetry::{Samples, Source, decision_bounds_s, families, model_families};

/// The time between two readings of the metrics. A reading takes a few milliseconds.
pub const READ_INTERVAL: Span = Span::from_secs(5);
/// The length of a step.
const STEP: Span = Span::from_secs(15);
/// Five minutes.
const STEPS: usize = 20;
/// The most policies, routes and workers together.
const MAX_SUBJECTS: usize = 5000;
/// Outcomes that count as refused, and those that are no judgement: as in the alerts.
const REFUSED: [&str; 2] = ["refused", "banned"];
const NOT_JUDGED: [&str; 2] = ["exempt", "lacking_key"];

/// A counter whose growth matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Decisions of a policy by outcome.
    Refused,
    Judged,
    FailedOpen,
    /// All decisions, and those without the store.
    Decisions,
    LocalDecisions,
    /// Promises of a policy that were not kept.
    Broken,
    /// Keys that were forgotten.
    Forgotten,
    /// Decisions up to the bound of a bucket, by its number.
    DecisionTimes,
    /// Processor time of a worker in microseconds.
    Busy,
    /// Requests of a route, and those with a status of 500 or more.
    Requests,
    Failed,
    /// Lines of a log that were dropped.
    LostLines,
    /// Requests that name a client and are not believed.
    Unbelieved,
    /// Descriptors of a policy that do not share the counter of the gateway.
    Alone,
    /// Questions to an authorizer without an answer.
    AuthorizerFailures,
    /// Connections of an upstream on which bytes came behind a response.
    Excess,
    /// Requests to an upstream that got no connection.
    QueueRefused,
    /// Responses to banned clients that were not held back.
    UnheldBans,
    /// Requests under a policy whose response does not state their cost, or hides it.
    Unsettled,
    /// Requests under a policy whose API key has a limit in other units.
    UnfitLimit,
    /// Decisions of a policy without the limit of the client, which it cannot count.
    IgnoredLimit,
    /// Calls to a server of the store without memory to send them.
    Overloads,
    /// Calls to the store that failed while it decided others, by their cause.
    CallErrors,
}

type Counts = BTreeMap<(Counted, Box<str>), f64>;

/// The figures.
#[derive(Debug, Default)]
pub struct Window {
    /// The latest counts, and those at the beginning of each step.
    counts: Counts,
    steps: VecDeque<(Timestamp, Counts)>,
    read_at: Option<Timestamp>,
    /// When counters have grown last.
    grown: BTreeMap<(Counted, Box<str>), Timestamp>,
    shares: Shares,
    pub gauges: Gauges,
}

/// What is now.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Workers that do not ask a server of the store.
    pub breakers: Vec<(String, f64)>,
    /// Nodes with another configuration, by the section that differs.
    pub other_configs: Vec<(String, f64)>,
    /// When certificates expire, in seconds since the epoch.
    pub certificates: Vec<(String, f64)>,
    /// When they become valid, in seconds since the epoch.
    pub certificate_starts: Vec<(String, f64)>,
    /// 1 for each key set that was fetched at the last attempt, otherwise 0.
    pub fetched_key_sets: Vec<(String, f64)>,
    /// 1 for the file of the API keys if it was read at the last reload, otherwise 0.
    pub key_files: Vec<(String, f64)>,
    /// Whether the file of the classes was read, by its name.
    pub class_files: Vec<(String, f64)>,
    /// Whether the file of the prices was read, by its name.
    pub price_files: Vec<(String, f64)>,
    /// 1 for the file of users and passwords if it was read at the last reload, otherwise 0.
    pub password_files: Vec<(String, f64)>,
    /// 1 for each cause for which the store of the API keys cannot be read, otherwise 0.
    pub key_store_away: Vec<(String, f64)>,
    /// 1 if there is a connection to the xDS server, otherwise 0, by its address.
    pub xds_connected: Vec<(String, f64)>,
    /// 1 if its last limits were taken, otherwise 0.
    pub xds_last_taken: Vec<(String, f64)>,
    /// How many API keys are both in the file and in the store.
    pub duplicate_keys: f64,
    /// How many keys of a key set cannot be used.
    pub keys_left_out: Vec<(String, f64)>,
    /// 1 if a series of the metrics had no room, otherwise 0.
    pub series_full: f64,
    /// How many replicas of the store are not read.
    pub replicas_away: f64,
    /// The part of all file descriptors that is open.
    pub open_files: f64,
}

impl Window {
    /// Whether it is time to read the metrics.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.read_at.is_none_or(|at| now.since(at) >= READ_INTERVAL || now < at)
    }

    /// The time of the last reading.
    pub fn now(&self) -> Timestamp {
        self.read_at.unwrap_or_default()
    }

    /// Takes what the metrics show at `now`.
    pub fn read(&mut self, samples: &Samples, now: Timestamp) {
        let counts = counts_of(samples);
        for (id, count) in &counts {
            if *count > self.counts.get(id).copied().unwrap_or_default() {
                self.grown.insert(id.clone(), now);
            }
        }
        self.grown.retain(|id, _| counts.contains_key(id));
        if self.steps.is_empty() {
            // All counters begin at 0 with the process, which may be late with its first reading.
            self.steps.push_back((now, Counts::new()));
        }
        if self.steps.back().is_none_or(|(at, _)| now.since(*at) >= STEP) {
            self.steps.push_back((now, counts.clone()));
            if self.steps.len() > STEPS + 1 {
                self.steps.pop_front();
            }
        }
        (self.counts, self.read_at) = (counts, Some(now));
        let by_policy = |kind| self.of(kind).map(|(name, count)| (name.into(), count));
        let judged: Vec<_> = by_policy(Counted::Judged).collect();
        let refused: BTreeMap<_, _> = by_policy(Counted::Refused).collect();
        self.shares.read(&judged, &refused, now);
        self.gauges = gauges_of(samples);
    }

    /// The number of steps that are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The counts of one kind, by what they are about.
    fn of(&self, kind: Counted) -> impl Iterator<Item = (&str, f64)> {
        let counts = self.counts.iter().filter(move |((it, _), _)| *it == kind);
        counts.map(|((_, about), count)| (&**about, *count))
    }

    /// How much each counter of one kind has grown in the last five minutes.
    pub fn growth(&self, kind: Counted) -> BTreeMap<&str, f64> {
        let before = self.steps.front().map(|(_, counts)| counts);
        let growth = |(about, count)| {
            let id = (kind, Box::from(about));
            let known = before.and_then(|counts| counts.get(&id)).copied();
            (about, count - known.unwrap_or_default())
        };
        self.of(kind).map(growth).collect()
    }

    /// How many seconds [`growth`](Self::growth) covers.
    pub fn seconds(&self) -> f64 {
        let first = self.steps.front().map_or(self.now(), |(at, _)| *at);
        seconds(self.now().since(first))
    }

    /// The quotient of two growths, by what they are about.
    pub fn shares(&self, part: Counted, whole: Counted) -> Vec<(String, f64)> {
        let parts = self.growth(part);
        let share = |(about, whole): (&str, f64)| {
            let part = parts.get(about).copied().unwrap_or_default();
            (whole > 0.0).then(|| (about.to_owned(), part / whole))
        };
        self.growth(whole).into_iter().filter_map(share).collect()
    }

    /// Whether counters of one kind have grown in the last `span`: 1 or 0 for each.
    pub fn has_grown(&self, kind: Counted, span: Span) -> Vec<(String, f64)> {
        let grown = self.grown.iter().filter(|((it, _), _)| *it == kind);
        let is_recent = |at: Timestamp| self.now().since(at) < span;
        grown.map(|((_, about), at)| (about.to_string(), f64::from(is_recent(*at)))).collect()
    }

    /// The share of requests that a policy refuses, if these are `least` or more, and the share is more
    /// than `factor` times what it was before, or nothing is known of before. See [`Shares`].
    pub fn unusual_shares(&self, factor: f64, least: f64) -> Vec<(String, f64)> {
        let refused = self.growth(Counted::Refused);
        let is_unusual = |policy: &str, share: f64| {
            refused.get(policy).is_some_and(|refused| *refused >= least)
                && self.shares.before(policy).is_none_or(|before| share > factor * before)
        };
        let shares = self.shares(Counted::Refused, Counted::Judged).into_iter();
        shares.filter(|(policy, share)| is_unusual(policy, *share)).collect()
    }

    /// The share of its requests that a policy refused before. None: too little is known.
    pub fn refused_before(&self, policy: &str) -> Option<f64> {
        self.shares.before(policy)
    }

    /// What is known of before, for the metrics.
    pub fn source(&self) -> Arc<dyn Source> {
        self.shares.source()
    }

    /// The share of all decisions that are refusals, if there are `least` of them or more.
    pub fn refusals(&self, least: f64) -> Option<f64> {
        let sum = |kind| self.growth(kind).values().sum::<f64>();
        let refused = sum(Counted::Refused);
        let judged = sum(Counted::Judged);
        (refused >= least).then(|| refused / judged)
    }

    /// The share of all requests that name a client and are not believed; 0 without requests.
    pub fn unbelieved_share(&self) -> f64 {
        let sum = |kind| self.growth(kind).values().sum::<f64>();
        let unbelieved = sum(Counted::Unbelieved);
        let requests = sum(Counted::Requests);
        if requests > 0.0 { unbelieved / requests } else { 0.0 }
    }

    /// The policies that refuse most, at most `most` of them, the first one most.
    pub fn refusing_most(&self, most: usize) -> Vec<&str> {
        let growth = self.growth(Counted::Refused).into_iter();
        let mut refusing: Vec<(&str, f64)> = growth.filter(|(_, count)| *count > 0.0).collect();
        refusing.sort_by(|one, other| other.1.total_cmp(&one.1));
        refusing.into_iter().take(most).map(|(policy, _)| policy).collect()
    }

    /// The time that 99 of 100 decisions do not exceed, in seconds, estimated within its
    /// bucket as Prometheus does. None: there were fewer than `least` decisions.
    pub fn slow_decision(&self, least: f64) -> Option<f64> {
        let growth = self.growth(Counted::DecisionTimes);
        let bounds = decision_bounds_s();
        let counts: Vec<f64> = (0..=bounds.len())
            .map(|index| growth.get(&*index.to_string()).copied().unwrap_or_default())
            .collect();
        let decisions = counts.iter().sum::<f64>();
        if decisions < least {
            return None;
        }
        let rank = decisions * 0.99;
        let mut below = 0.0;
        let mut lower = 0.0;
        for (count, upper) in counts.iter().zip(&bounds) {
            if below + count >= rank && *count > 0.0 {
                return Some(lower + (upper - lower) * (rank - below) / count);
            }
            (below, lower) = (below + count, *upper);
        }
        (rank > 0.0).then_some(lower)
    }
}

/// A time in seconds.
#[expect(clippy::cast_precision_loss, reason = "rates need few digits")]
fn seconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1_000_000.0
}

fn counts_of(samples: &Samples) -> Counts {
    let mut counts = Counts::new();
    let mut add = |kind: Counted, about: &str, count: f64| {
        if counts.len() < 3 * MAX_SUBJECTS || counts.contains_key(&(kind, about.into())) {
            *counts.entry((kind, about.into())).or_default() += count;
        }
    };
    samples.each(&families::DECISIONS, |labels, numbers| {
        let policy = &labels[0];
        let outcome = &*labels[2];
        let count = numbers[0];
        if !NOT_JUDGED.contains(&outcome) {
            add(Counted::Judged, policy, count);
        }
        match outcome {
            "failed_open" => add(Counted::FailedOpen, policy, count),
            "key_limit_unfit" => add(Counted::UnfitLimit, policy, count),
            _ if REFUSED.contains(&outcome) => add(Counted::Refused, policy, count),
            _ => {}
        }
    });
    samples.each(&families::DECISIONS_BY_SOURCE, |labels, numbers| {
        add(Counted::Decisions, "", numbers[0]);
        if matches!(&*labels[1], "local" | "none") {
            add(Counted::LocalDecisions, "", numbers[0]);
        }
    });
    samples.each(&families::REQUEST_DURATION, |labels, numbers| {
        let count = numbers[..numbers.len() - 1].iter().sum();
        add(Counted::Requests, &labels[3], count);
        if matches!(labels[1].as_bytes(), [b'5', _, _]) {
            add(Counted::Failed, &labels[3], count);
        }
    });
    samples.each(&families::DECISION_DURATION, |_, numbers| {
        for (index, count) in numbers[..numbers.len() - 1].iter().enumerate() {
            add(Counted::DecisionTimes, &index.to_string(), *count);
        }
    });
    samples.each(&families::UNSETTLED_REQUESTS, |labels, numbers| {
        if matches!(&*labels[1], "absent" | "encoded") {
            add(Counted::Unsettled, &labels[0], numbers[0]);
        }
    });
    samples.each(&families::PROMISES, |labels, numbers| {
        if *labels[1] == *"false" {
            add(Counted::Broken, &labels[0], numbers[0]);
        }
    });
    for (family, kind, label) in [
        (&families::STORE_EVICTIONS, Counted::Forgotten, None),
        (&families::UNHELD_BANS, Counted::UnheldBans, None),
        (&families::IGNORED_LIMITS, Counted::IgnoredLimit, Some(0)),
        (&families::WORKER_BUSY, Counted::Busy, Some(0)),
        (&families::LOG_LINES_DROPPED, Counted::LostLines, Some(0)),
        (&families::UNBELIEVED_REQUESTS, Counted::Unbelieved, None),
        (&families::RATE_LIMIT_ALONE, Counted::Alone, Some(1)),
        (&families::UPSTREAM_EXCESS, Counted::Excess, Some(0)),
        (&families::UPSTREAM_QUEUE_REFUSED, Counted::QueueRefused, Some(0)),
        (&families::AUTHORIZER_FAILURES, Counted::AuthorizerFailures, Some(0)),
        (&families::STORE_OVERLOADS, Counted::Overloads, Some(0)),
        (&families::STORE_CALL_ERRORS, Counted::CallErrors, Some(1)),
    ] {
        samples.each(family, |labels, numbers| {
            add(kind, label.map_or("", |label: usize| &labels[label]), numbers[0]);
        });
    }
    counts
}

fn gauges_of(samples: &Samples) -> Gauges {
    let mut gauges = Gauges::default();
    for (family, values) in [
        (&families::BREAKER_OPEN, &mut gauges.breakers),
        (&families::CERTIFICATE_EXPIRY, &mut gauges.certificates),
        (&families::CERTIFICATE_START, &mut gauges.certificate_starts),
        (&families::NODES_WITH_OTHER_CONFIG, &mut gauges.other_configs),
        (&families::KEY_SET_LAST_FETCH, &mut gauges.fetched_key_sets),
        (&families::KEY_FILE_LAST_LOAD, &mut gauges.key_files),
        (&families::CLASS_FILE_LAST_LOAD, &mut gauges.class_files),
        (&model_families::PRICE_FILE_LAST_LOAD, &mut gauges.price_files),
        (&families::PASSWORD_FILE_LAST_LOAD, &mut gauges.password_files),
        (&families::KEY_STORE_AWAY, &mut gauges.key_store_away),
        (&families::KEYS_LEFT_OUT, &mut gauges.keys_left_out),
        (&families::XDS_CONNECTED, &mut gauges.xds_connected),
        (&families::XDS_LAST_TAKEN, &mut gauges.xds_last_taken),
    ] {
        samples.each(family, |labels, numbers| values.push((labels[0].to_string(), numbers[0])));
    }
    let one = |family| {
        let mut value = 0.0;
        samples.each(family, |_, numbers| value = numbers[0]);
        value
    };
    gauges.duplicate_keys = one(&families::KEYS_IN_FILE_AND_STORE);
    gauges.series_full = one(&families::SERIES_FULL);
    gauges.replicas_away = one(&families::REPLICAS_AWAY);
    let most = one(&families::PROCESS_MAX_FDS);
    if most > 0.0 {
        gauges.open_files = one(&families::PROCESS_OPEN_FDS) / most;
    }
    gauges
}
