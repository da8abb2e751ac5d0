//! What candidates have judged on this node since they began.
//!
//! The counters of the metrics never start again. So what they said when a candidate began is
//! kept, and subtracted.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::node::View;
use super::words::Counted;
use crate::telemetry::{Metrics, families};

/// The counts at which the present candidates began.
#[derive(Debug, Default)]
pub struct CandidateCounts(RefCell<BTreeMap<String, Begun>>);

/// When a candidate was made, in microseconds, and what its name had counted before.
#[derive(Debug)]
struct Begun {
    since_us: u64,
    before: BTreeMap<String, u64>,
}

impl CandidateCounts {
    /// Notes candidates that are new, and forgets those that are gone. To be called regularly.
    pub fn update(&self, metrics: &Metrics, view: &View) {
        let changed = view.snapshot.patches.changed.values();
        let present: BTreeMap<&str, u64> = changed
            .filter_map(|it| it.candidate.as_ref())
            .map(|(change, policy)| (&*policy.name, change.since_us))
            .collect();
        let mut begun = self.0.borrow_mut();
        begun.retain(|name, it| present.get(&**name) == Some(&it.since_us));
        for (name, since_us) in present {
            if !begun.contains_key(name) {
                let before = counted(metrics, name);
                begun.insert(name.to_owned(), Begun { since_us, before });
            }
        }
    }

    /// The decisions of the candidate of this name by outcome, and its disagreements with the
    /// policies that decide.
    pub fn since(&self, metrics: &Metrics, name: &str, since_us: u64) -> Counted {
        let begun = self.0.borrow();
        let Some(begun) = begun.get(name).filter(|it| it.since_us == since_us) else {
            return Counted::new();
        };
        let mut now = counted(metrics, name);
        for (outcome, before) in &begun.before {
            if let Some(count) = now.get_mut(outcome) {
                *count = count.saturating_sub(*before);
            }
        }
        now
    }
}

/// The counts of the policy of this name.
fn counted(metrics: &Metrics, name: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (family, prefix) in
        [(&families::DECISIONS, ""), (&families::SHADOW_DISAGREEMENTS, "while_live_")]
    {
        for (labels, count) in metrics.counts(family, Some(name)) {
            if let Some(label) = labels.last() {
                *counts.entry(format!("{prefix}{label}")).or_default() += count;
            }
        }
    }
    counts
}
