//! What policies have counted in the last five minutes, in steps of five seconds.

use std::collections::{BTreeMap, VecDeque};

use tollgate_core::time::Span;

use crate::telemetry::metrics::PolicyCounts;

/// The length of a step.
const STEP: Span = Span::from_secs(5);
/// Complete steps that are kept: five minutes.
const STEPS: usize = 60;

/// The steps.
#[derive(Debug, Default)]
pub struct Marks {
    /// Complete steps, the oldest first.
    complete: VecDeque<Step>,
    /// The step in progress.
    open: Step,
}

/// What was counted in some time. Policies that have counted nothing are absent.
#[derive(Debug, Default)]
struct Step {
    took: Span,
    /// By the names of the policies.
    policies: BTreeMap<Box<str>, PolicyCounts>,
}

impl Marks {
    /// Adds what policies have counted in this time.
    pub fn add(&mut self, took: Span, grown: Vec<(&str, PolicyCounts)>) {
        let Self { complete, open } = self;
        open.took = Span::from_micros(open.took.as_micros() + took.as_micros());
        for (name, growth) in grown {
            match open.policies.get_mut(name) {
                Some(counts) => counts.add(&growth),
                None => drop(open.policies.insert(name.into(), growth)),
            }
        }
        // The readings are a little late: the fifth is the last of its step.
        if open.took.as_micros() >= STEP.as_micros() - STEP.as_micros() / 10 {
            if complete.len() == STEPS {
                complete.pop_front();
            }
            complete.push_back(std::mem::take(open));
        }
    }

    /// The number of complete steps.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.complete.len()
    }

    /// What a policy has counted in the last `span`, rounded up to whole steps, or since the
    /// start, and in which time.
    pub fn last(&self, name: &str, span: Span) -> (Span, PolicyCounts) {
        let mut us = 0_u64;
        let mut counts = PolicyCounts::default();
        for step in std::iter::once(&self.open).chain(self.complete.iter().rev()) {
            if us >= span.as_micros() {
                break;
            }
            us += step.took.as_micros();
            if let Some(growth) = step.policies.get(name) {
                counts.add(growth);
            }
        }
        (Span::from_micros(us), counts)
    }
}
