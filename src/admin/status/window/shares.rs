//! What share of its requests a policy refused before, as far as one node knows.
//!
//! The share of refusals is kept in steps of five minutes for a day. What counts is the same step
//! of the day before. If there is none, or it has no requests, the whole time before counts, of
//! which there must be an hour. What was refused before the process began is not known.
//!
//! The shares are a metric, so that an alert compares with the same number as the status.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::time::{Span, Timestamp};

use crate::telemetry::{Samples, Source, families};

/// The length of a step.
const STEP: Span = Span::from_secs(300);
/// A day.
const STEPS: usize = 288;
/// An hour.
const LEAST: usize = 12;
/// The policies that are compared: the first ones by name.
const MAX_POLICIES: usize = 1000;

/// What policies have refused in the last day.
#[derive(Debug, Default)]
pub struct Shares {
    policies: BTreeMap<Box<str>, Policy>,
    stepped_at: Option<Timestamp>,
    before: Arc<SharesBefore>,
}

/// The share that each policy refused before, from 0 to 1. A policy of which too little is known
/// is absent.
#[derive(Debug, Default)]
pub struct SharesBefore(Mutex<BTreeMap<Box<str>, f64>>);

impl Source for SharesBefore {
    fn collect(&self, samples: &mut Samples) {
        for (policy, share) in &*self.0.lock() {
            samples.set(&families::REFUSED_BEFORE, &[policy], *share);
        }
    }
}

#[derive(Debug, Default)]
struct Policy {
    /// What was refused and judged until the end of the last step.
    refused: f64,
    judged: f64,
    /// The same of each step, the oldest first.
    steps: VecDeque<(f32, f32)>,
}

impl Shares {
    /// Takes the counts of all policies at `now`.
    pub fn read(
        &mut self,
        judged: &[(Box<str>, f64)],
        refused: &BTreeMap<Box<str>, f64>,
        now: Timestamp,
    ) {
        if self.stepped_at.is_some_and(|at| now.since(at) < STEP && now >= at) {
            return;
        }
        let is_first = self.stepped_at.replace(now).is_none();
        for (name, judged) in judged.iter().take(MAX_POLICIES) {
            let policy = self.policies.entry(name.clone()).or_default();
            let refused = refused.get(name).copied().unwrap_or_default();
            if !is_first {
                let step = (short(refused - policy.refused), short(judged - policy.judged));
                policy.steps.push_back(step);
            }
            if policy.steps.len() > STEPS {
                policy.steps.pop_front();
            }
            (policy.refused, policy.judged) = (refused, *judged);
        }
        self.policies.retain(|name, _| judged.iter().any(|(it, _)| it == name));
        let shares = self.policies.iter();
        let known = shares.filter_map(|(name, policy)| Some((name.clone(), policy.before()?)));
        *self.before.0.lock() = known.collect();
    }

    /// The share that a policy refused before. None: too little is known.
    pub fn before(&self, policy: &str) -> Option<f64> {
        self.before.0.lock().get(policy).copied()
    }

    /// The same of all policies, for the metrics.
    pub fn source(&self) -> Arc<SharesBefore> {
        Arc::clone(&self.before)
    }
}

impl Policy {
    fn before(&self) -> Option<f64> {
        let share = |(refused, judged): (f32, f32)| {
            (judged > 0.0).then(|| f64::from(refused) / f64::from(judged))
        };
        let day_before = self.steps.front().filter(|_| self.steps.len() == STEPS);
        day_before.copied().and_then(share).or_else(|| {
            // The last step is part of what is compared.
            let steps = self.steps.len().checked_sub(1).filter(|steps| *steps >= LEAST)?;
            let sum = |sum: (f32, f32), step: &(f32, f32)| (sum.0 + step.0, sum.1 + step.1);
            share(self.steps.iter().take(steps).fold((0.0, 0.0), sum))
        })
    }
}

/// Seven digits are enough for a share.
#[expect(clippy::cast_possible_truncation, reason = "it keeps the first digits")]
fn short(number: f64) -> f32 {
    number as f32
}
