//! Limits that fit what the keys of a log have used.
//!
//! For each policy and each window, the peaks of all keys give percentiles. The proposed
//! limit is 1.2 times the peak below which 99.9 % of the keys stay, rounded up to 1, 2 or 5
//! times a power of ten. Keys far beyond all others say nothing about the others: they are
//! left out and listed.

use std::sync::Arc;

use serde::Serialize;
use tollgate_core::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_core::policy::{Mode, Policy};
use tollgate_core::time::Span;

use super::peaks::{Peak, Peaks, WINDOWS};
use super::rate::limit_of;
use super::refused::tells_clients_apart;
use super::trial::{Setup, Trial, is_short};
use super::words::written;

/// A key is left out if its peak is beyond so many times the 99th percentile.
const FAR: u64 = 10;
/// The most keys that are listed for each window.
const MAX_LISTED: usize = 10;

/// The limits for all policies.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Suggestions {
    /// One of so many keys was measured: 1 if all were.
    pub(super) sampled_one_of: u64,
    /// Whether the proposed limits were tried in a second reading.
    pub(super) tried: bool,
    /// How many counters were forgotten in it for want of room.
    #[serde(skip)]
    pub(super) forgotten: u64,
    pub(super) policies: Vec<PolicySuggestion>,
}

/// The limits for one policy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PolicySuggestion {
    pub(super) name: String,
    pub(super) keys: u64,
    pub(super) windows: Vec<WindowSuggestion>,
    /// What to write in the configuration: the proposal for the window that is nearest to the
    /// policy's own one.
    pub(super) write: String,
    /// The index of that window.
    #[serde(skip)]
    pub(super) nearest: usize,
    /// The limit of the configuration.
    #[serde(skip)]
    pub(super) now: String,
    /// Whether its keys are those of clients.
    #[serde(skip)]
    pub(super) tells_clients_apart: bool,
}

/// The limit for one window.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WindowSuggestion {
    pub(super) window: String,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
    pub(super) most: u64,
    /// The proposed limit in units.
    pub(super) proposed: u64,
    /// How many keys were left out, and those with the highest peaks.
    pub(super) left_out: u64,
    pub(super) listed: Vec<Listed>,
    /// What the proposed limit refuses in the same log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<TrialOfLimit>,
}

/// A key that was left out.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Listed {
    /// The client of its latest request.
    pub(super) client: String,
    pub(super) peak: u64,
}

/// What a proposed limit refuses.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TrialOfLimit {
    pub(super) judged: u64,
    pub(super) refused: u64,
    pub(super) keys_hit: u64,
}

impl Suggestions {
    /// The limits by what the keys have used.
    pub(super) fn of(setup: &Setup, peaks: &Peaks) -> Self {
        let policies = setup
            .policies
            .iter()
            .enumerate()
            .filter(|(_, policy)| !policy.algorithm.window().is_zero());
        let policies = policies.filter_map(|(index, policy)| {
            let keys: Vec<&Peak> = peaks.of(index).collect();
            let windows = (0..WINDOWS.len()).map(|window| of_window(&keys, window)).collect();
            (!keys.is_empty()).then(|| PolicySuggestion::of(policy, keys.len(), windows))
        });
        Self {
            sampled_one_of: peaks.sampled_one_of(),
            tried: false,
            forgotten: 0,
            policies: policies.collect(),
        }
    }

    /// For each window, rules in which every policy has the limit that is proposed for it.
    /// All policies are in shadow, so that none keeps another one from counting.
    pub(super) fn setups(&self, setup: &Setup) -> Vec<Setup> {
        let windows = 0..WINDOWS.len();
        windows.map(|window| with_limits(setup, |name| self.proposed(name, window))).collect()
    }

    /// The proposed limits of a policy, if it has any.
    pub(super) fn limits(&self, name: &str) -> Option<[u64; WINDOWS.len()]> {
        let policy = self.policies.iter().find(|policy| policy.name == name)?;
        let mut limits = [0; WINDOWS.len()];
        for (limit, window) in limits.iter_mut().zip(&policy.windows) {
            *limit = window.proposed;
        }
        Some(limits)
    }

    fn proposed(&self, name: &str, window: usize) -> Option<Quota> {
        let policy = self.policies.iter().find(|policy| policy.name == name)?;
        Quota::new(policy.windows[window].proposed, WINDOWS[window]).ok()
    }

    /// Adds what the proposed limits refuse: one trial for each window.
    pub(super) fn add_trials<'t>(&mut self, trials: impl Iterator<Item = &'t Trial>) {
        self.tried = true;
        for (window, trial) in trials.enumerate() {
            for policy in &mut self.policies {
                let index = trial.policies().iter().position(|it| *it.name == *policy.name);
                let tally = index.and_then(|index| trial.counts.tallies.get(index));
                policy.windows[window].trial = tally.map(|tally| TrialOfLimit {
                    judged: tally.judged,
                    refused: tally.refused,
                    keys_hit: tally.keys_hit.count(),
                });
            }
        }
    }
}

impl PolicySuggestion {
    fn of(policy: &Policy, keys: usize, windows: Vec<WindowSuggestion>) -> Self {
        let nearest = nearest(policy.algorithm.window());
        let proposed = windows[nearest].proposed;
        let limit = written(&format!("{proposed}/{}", WINDOWS[nearest]));
        // A bucket that holds the whole limit admits all that a window of this limit does.
        let burst = match &policy.algorithm {
            Algorithm::TokenBucket(bucket) => format!(", burst: {}", bucket.burst().max(proposed)),
            _ => String::new(),
        };
        Self {
            name: policy.name.to_string(),
            keys: u64::try_from(keys).unwrap_or(u64::MAX),
            windows,
            write: format!("limit: {limit}{burst}"),
            nearest,
            now: limit_of(policy),
            tells_clients_apart: tells_clients_apart(&policy.key),
        }
    }
}

/// The index of the window whose length is nearest to this one, by ratio.
fn nearest(window: Span) -> usize {
    let ratio = |index: &usize| {
        let one = WINDOWS[*index].as_micros();
        let other = window.as_micros().max(1);
        one.max(other).saturating_mul(1000) / one.min(other)
    };
    (0..WINDOWS.len()).min_by_key(ratio).unwrap_or(0)
}

fn of_window(keys: &[&Peak], window: usize) -> WindowSuggestion {
    let mut peaks: Vec<(u64, &Peak)> =
        keys.iter().map(|peak| (u64::from(peak.most(window)), *peak)).collect();
    peaks.sort_unstable_by_key(|(most, _)| *most);
    let far = percentile(&peaks, 990).saturating_mul(FAR);
    let kept = peaks.partition_point(|(most, _)| *most <= far);
    let (kept, left_out) = peaks.split_at(kept);
    let p999 = percentile(kept, 999);
    let listed = left_out.iter().rev().take(MAX_LISTED);
    WindowSuggestion {
        window: WINDOWS[window].to_string(),
        p50: percentile(kept, 500),
        p90: percentile(kept, 900),
        p99: percentile(kept, 990),
        p999,
        most: kept.last().map_or(0, |(most, _)| *most),
        proposed: rounded_up(p999.saturating_mul(12).div_ceil(10)),
        left_out: u64::try_from(left_out.len()).unwrap_or(u64::MAX),
        listed: listed
            .map(|(peak, key)| Listed { client: key.client.to_string(), peak: *peak })
            .collect(),
        trial: None,
    }
}

/// The peak that so many keys in a thousand do not exceed.
fn percentile(peaks: &[(u64, &Peak)], per_mille: usize) -> u64 {
    let rank = (peaks.len() * per_mille).div_ceil(1000).max(1);
    peaks.get(rank - 1).map_or(0, |(most, _)| *most)
}

/// The next 1, 2 or 5 times a power of ten.
fn rounded_up(number: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [1, 2, 5] {
            let round = power.saturating_mul(step);
            if round >= number {
                return round;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// The same rules in shadow, in which the policies for which `quota` has one count up to it
/// without exceptions.
fn with_limits(setup: &Setup, quota: impl Fn(&str) -> Option<Quota>) -> Setup {
    let changed = |policy: &Arc<Policy>| {
        let algorithm = quota(&policy.name).and_then(|quota| counting(&policy.algorithm, quota));
        let Some(algorithm) = algorithm else {
            return Arc::new(Policy { mode: Mode::Shadow, ..(**policy).clone() });
        };
        let base = Policy::new(&policy.name, policy.key.clone(), algorithm);
        Arc::new(Policy {
            missing_key: policy.missing_key,
            exempt: policy.exempt.clone(),
            cost: policy.cost.clone(),
            count: policy.count.clone(),
            preflights: policy.preflights.clone(),
            mode: Mode::Shadow,
            ..base
        })
    };
    let mut setup = setup.clone();
    setup.policies = setup.policies.iter().map(changed).collect();
    for route in &mut setup.routes {
        route.policies = route.policies.iter().map(changed).collect();
    }
    setup
}

/// What counts up to a quota as this algorithm does. Buckets admit a burst and then a pace,
/// and a quota says nothing of a burst; so a sliding window stands in for them.
fn counting(algorithm: &Algorithm, quota: Quota) -> Option<Algorithm> {
    match algorithm {
        Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_) => {
            Some(Algorithm::SlidingWindow(SlidingWindow::new(quota)))
        }
        other => other.with_quota(quota).ok(),
    }
}

/// Whether one of these rules needs both placements.
pub(super) fn has_short_window(setup: &Setup) -> bool {
    setup.policies.iter().any(|policy| is_short(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_not_measured_has_a_neighbour() {
        let cases = [(1, 0), (3, 0), (5, 1), (60, 2), (300, 2), (900, 3), (604_800, 4)];
        for (seconds, index) in cases {
            assert_eq!(nearest(Span::from_secs(seconds)), index, "{seconds}");
        }
    }

    #[test]
    fn limits_are_round() {
        let cases = [(0, 1), (1, 1), (2, 2), (3, 5), (6, 10), (10, 10), (11, 20), (201, 500)];
        for (number, round) in cases {
            assert_eq!(rounded_up(number), round, "{number}");
        }
    }
}
