//! Whether a policy refuses more than it did before, as far as one node knows.
//!
//! The share of refusals is kept in steps of five minutes for a day. It is compared with the
//! same step of the day before. In the first day of a process there is none: then it is
//! compared with the whole time before, of which there must be an hour. What was refused
//! before the process began is not known.

use std::collections::{BTreeMap, VecDeque};

use tollgate_limiter::time::{Span, Timestamp};

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
pub(super) struct Shares {
    policies: BTreeMap<Box<str>, Policy>,
    stepped_at: Option<Timestamp>,
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
    pub(super) fn read(
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
    }

    /// Whether a policy that refuses this share refuses more than `factor` times what it did
    /// before. False if too little is known.
    pub(super) fn is_unusual(&self, policy: &str, share: f64, factor: f64) -> bool {
        let Some(Policy { steps, .. }) = self.policies.get(policy) else { return false };
        let before: (f32, f32) = match steps.front() {
            Some(day_before) if steps.len() == STEPS => *day_before,
            // The last step is part of what is compared.
            _ if steps.len() > LEAST => steps
                .iter()
                .take(steps.len() - 1)
                .fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1)),
            _ => return false,
        };
        let (refused, judged) = (f64::from(before.0), f64::from(before.1));
        judged > 0.0 && share > factor * refused / judged
    }
}

/// Seven digits are enough for a share.
#[expect(clippy::cast_possible_truncation, reason = "it keeps the first digits")]
fn short(number: f64) -> f32 {
    number as f32
}
