//! What this node says of itself to the operators, and, in Redis, to the other nodes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;
use tollgate_core::time::{Clock, Timestamp, monotonic};
use tollgate_redis::ControlStore;

use super::observed::{Observed, OtherConfigs};
use super::patches::PatchKeeper;
use crate::patches::{ConfigIdentity, Resolved};
use crate::platform::process_usage;
use crate::telemetry::{Metrics, families};

/// The time between two looks at what has changed.
const INTERVAL: Duration = Duration::from_secs(1);
/// A record is written at least once in this many intervals.
const WRITE_EVERY: u64 = 5;
/// The records of the others are read once in this many intervals.
const READ_EVERY: u64 = 15;
/// The most ignored changes that a record names, so that its length has a bound.
const MAX_IGNORED: usize = 8;
/// The most characters of a text in a record.
const MAX_CHARS: usize = 120;
/// The most bytes of a record.
const MAX_BYTES: usize = 4096;

/// Describes this node.
pub struct NodeReporter {
    patches: Rc<PatchKeeper>,
    metrics: Arc<Metrics>,
    observed: Arc<Observed>,
    clock: Clock,
    started: Timestamp,
    /// The address of the admin listener.
    admin: Option<String>,
    rates: RefCell<Rates>,
}

/// The counts at the last look, and the rates since the one before.
struct Rates {
    at: Instant,
    requests: u64,
    refusals: u64,
    requests_per_s: f64,
    refusals_per_s: f64,
}

impl NodeReporter {
    /// The node whose admin listener has this address.
    pub fn new(
        patches: Rc<PatchKeeper>,
        metrics: Arc<Metrics>,
        observed: Arc<Observed>,
        admin: Option<String>,
    ) -> Rc<Self> {
        let rates = Rates {
            at: monotonic(),
            requests: 0,
            refusals: 0,
            requests_per_s: 0.0,
            refusals_per_s: 0.0,
        };
        let clock = Clock::System;
        let started = clock.wall();
        let rates = RefCell::new(rates);
        Rc::new(Self { patches, metrics, observed, clock, started, admin, rates })
    }

    /// Writes a record at intervals, and compares those of the others, until the task is
    /// dropped.
    pub async fn keep(self: Rc<Self>) {
        let mut written = None;
        for turn in 0.. {
            if turn % WRITE_EVERY == 0 {
                self.measure();
            }
            if let Some(control) = self.patches.control() {
                let state = (self.patches.identity(), self.patches.in_force());
                let is_same = |(identity, changes): &(ConfigIdentity, Arc<Resolved>)| {
                    *identity == state.0 && Arc::ptr_eq(changes, &state.1)
                };
                if turn % WRITE_EVERY == 0 || !written.as_ref().is_some_and(is_same) {
                    // The links have logged an error, and it is tried again.
                    let _ = control.write_record(bounded(self.record()).as_bytes()).await;
                    written = Some(state);
                }
                if turn % READ_EVERY == 0 {
                    self.compare(control).await;
                }
            }
            sleep(INTERVAL).await;
        }
    }

    /// Counts the nodes that have another configuration.
    async fn compare(&self, control: &ControlStore) {
        if let Ok(records) = control.records().await {
            let own_id = control.node_id();
            let others = records.iter().filter(|it| it.id != own_id);
            let texts = others.map(|it| it.record.as_deref().unwrap_or_default());
            self.observed.set_other_configs(other_configs(texts, &self.patches.identity()));
        }
    }

    fn measure(&self) {
        let now = monotonic();
        let requests = self.metrics.observations(&families::REQUEST_DURATION);
        let refusals = self.metrics.observations(&families::WAIT_TOLD);
        let mut rates = self.rates.borrow_mut();
        let elapsed_s = now.saturating_duration_since(rates.at).as_secs_f64();
        if elapsed_s >= 1.0 {
            let rate = |now: u64, before: u64| {
                let count = u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
                (f64::from(count) / elapsed_s * 10.0).round() / 10.0
            };
            rates.requests_per_s = rate(requests, rates.requests);
            rates.refusals_per_s = rate(refusals, rates.refusals);
        }
        (rates.at, rates.requests, rates.refusals) = (now, requests, refusals);
    }

    /// The record of now.
    pub fn record(&self) -> Value {
        let usage = process_usage();
        let rates = self.rates.borrow();
        let open: u64 =
            self.metrics.counts(&families::BREAKER_OPEN, None).iter().map(|it| it.1).sum();
        let ignored = self.patches.in_force();
        let shown = ignored.ignored.iter().take(MAX_IGNORED).map(
            |it| json!({ "policy": shortened(&it.policy), "because": shortened(&it.because) }),
        );
        let identity = self.patches.identity();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "started": self.started.to_string(),
            "seen": self.clock.wall().to_string(),
            "config": identity.config,
            "config_sections": identity.config_sections,
            "config_from": if self.observed.is_from_file() { "file" } else { "call" },
            "requests_per_s": rates.requests_per_s,
            "refusals_per_s": rates.refusals_per_s,
            "cpu_seconds": usage.cpu_us.map(|us| us / 1_000_000),
            "memory_bytes": usage.resident_bytes,
            "breakers_open": open,
            "patches": ignored.changed.len(),
            "ignored_patches": shown.collect::<Vec<_>>(),
            "admin": self.admin.as_deref().map(shortened),
        })
    }
}

/// The record as text. If it is too long, it does not name the ignored changes.
fn bounded(mut record: Value) -> String {
    let text = record.to_string();
    if text.len() <= MAX_BYTES {
        return text;
    }
    record["ignored_patches"] = json!([]);
    record.to_string()
}

/// How many of these records differ from the configuration of this node.
fn other_configs<'r>(
    records: impl Iterator<Item = &'r [u8]>,
    own: &ConfigIdentity,
) -> OtherConfigs {
    let mut others = OtherConfigs {
        differ: own.sections().map(|name| (name.to_owned(), 0)).collect(),
        unknown: 0,
    };
    for record in records {
        // A record that this version cannot read says no more than one of an earlier version.
        let other: ConfigIdentity = serde_json::from_slice(record).unwrap_or_default();
        match own.differs_in(&other) {
            Some(sections) => sections.into_iter().for_each(|name| {
                others.differ.entry(name.to_owned()).and_modify(|nodes| *nodes += 1);
            }),
            None => others.unknown += 1,
        }
    }
    others
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_bound() {
        let record = |because: &str| {
            let ignored = [(); MAX_IGNORED].map(|()| json!({ "policy": "p", "because": because }));
            json!({ "config": "c", "ignored_patches": ignored })
        };
        let usual = record(&"x".repeat(MAX_CHARS));
        assert_eq!(bounded(usual.clone()), usual.to_string());
        let escaped = bounded(record(&"\u{1}".repeat(MAX_CHARS)));
        assert_eq!(escaped, "{\"config\":\"c\",\"ignored_patches\":[]}");
    }

    #[test]
    fn nodes_are_counted_by_the_sections_that_differ() {
        let record = |file: &str, policies: &str, routes: &str| {
            let sections = json!({ "format": "1", "policies": policies, "routes": routes });
            json!({ "config": file, "config_sections": sections }).to_string()
        };
        let records = [
            record("a", "p", "r"),
            record("b", "p", "r"),
            record("c", "x", "r"),
            record("d", "x", "x"),
            json!({ "config": "a" }).to_string(),
            json!({ "config": "b" }).to_string(),
            json!({ "config": 1 }).to_string(),
            "no JSON".to_owned(),
            String::new(),
        ];
        let own = serde_json::from_str(&record("a", "p", "r")).expect("it is one");
        let others = other_configs(records.iter().map(|record| record.as_bytes()), &own);
        let differ: Vec<_> = others.differ.iter().map(|(name, nodes)| (&**name, *nodes)).collect();
        assert_eq!((differ, others.unknown), (vec![("policies", 2), ("routes", 1)], 4));
    }
}
