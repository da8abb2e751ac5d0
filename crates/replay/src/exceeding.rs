//! Which requests a suggested limit can refuse. Only for these must it be tried, which
//! saves most of the work and of the memory: almost all keys stay far below the limit.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::policy::{Cost, KeyFor, Policy};
use tollgate_core::request::RequestView;
use tollgate_core::routes::{Route, Rules};
use tollgate_core::time::Timestamp;

use super::entry::Entry;
use super::facts::Facts;
use super::foreseen::{Foreseen, Windows};
use super::key_table::{KeyTable, PolicyKey};
use super::peaks::{Peaks, WINDOWS};
use super::suggest::Suggestions;
use super::trial::{Access, Setup, access_of, digest_of, lacks_credentials, rules};

/// A key can exceed a limit only if so many times its peak does. A peak is the most in four
/// quarters of a window in a row. No algorithm compares more with a limit than what lies in
/// eight of them: a fixed window takes four (a day with 25 hours five), a sliding window this
/// one and the one before, and a log all requests of an interval of its length.
const MOST_PEAKS: u64 = 2;

/// The limits of a policy of which no key was measured: no key exceeds them.
const NOT_EXCEEDED: [u64; WINDOWS.len()] = [u64::MAX; WINDOWS.len()];

/// Knows which keys can exceed the limits that are suggested.
pub(super) struct Exceeding {
    rules: Rules,
    /// Of each route, the indices of its policies. None: a policy must be tried for every
    /// request.
    routes: Vec<Vec<Option<usize>>>,
    /// The keys that can exceed a limit.
    keys: KeyTable<Windows>,
    /// How many keys can exceed the limits for each window.
    by_window: [usize; WINDOWS.len()],
    /// Whether keys were counted of policies that must be tried for every request.
    is_any_unknown: bool,
    /// Of keys that were not measured, nothing is known.
    sampled_one_of: u64,
}

/// What must be done for a request.
pub(super) enum Needed {
    /// Everything.
    All,
    /// It has this route, whose policies do this.
    Some(usize, SmallVec<[Foreseen; 4]>),
}

impl Exceeding {
    /// For trials of `suggestions` for `setup`. `peaks` were measured in the same logs.
    pub(super) fn new(setup: &Setup, suggestions: &Suggestions, peaks: &Peaks) -> Self {
        let mut has_peaks = vec![false; setup.policies.len()];
        for (key, _) in peaks.all() {
            if let Some(has_peaks) = has_peaks.get_mut(usize::from(key.0)) {
                *has_peaks = true;
            }
        }
        let limits_of = |(policy, has_peaks): (&Arc<Policy>, bool)| {
            if !has_peaks {
                // It has counted no request: all were exempt, or lack its key.
                return Some(NOT_EXCEEDED);
            }
            suggestions.limits(&policy.name).filter(|_| is_known_at_once(policy))
        };
        let limits: Vec<_> = setup.policies.iter().zip(has_peaks).map(limits_of).collect();
        let index = |policy: &Arc<Policy>| {
            let index = setup.policies.iter().position(|it| it.name == policy.name)?;
            limits[index].map(|_| index)
        };
        let routes = setup.routes.iter().map(|route| route.policies.iter().map(index).collect());
        let mut keys = KeyTable::default();
        let mut by_window = [0; WINDOWS.len()];
        let mut is_any_unknown = false;
        for (key, peak) in peaks.all() {
            let Some(Some(limits)) = limits.get(usize::from(key.0)) else {
                is_any_unknown = true;
                continue;
            };
            let mut windows = Windows::default();
            for (window, limit) in limits.iter().enumerate() {
                if u64::from(peak.most(window)).saturating_mul(MOST_PEAKS) > *limit {
                    windows.insert(window);
                    by_window[window] += 1;
                }
            }
            if windows != Windows::default() {
                keys.insert(key, windows);
            }
        }
        Self {
            rules: rules(setup),
            routes: routes.collect(),
            keys,
            by_window,
            is_any_unknown,
            sampled_one_of: peaks.sampled_one_of(),
        }
    }

    /// How many keys the trial for each window counts, if `others` more are counted for which
    /// everything must be done. None: any number.
    pub(super) fn counted(&self, others: u64) -> Option<[usize; WINDOWS.len()]> {
        let is_known = self.sampled_one_of == 1 && !self.is_any_unknown;
        let others = usize::try_from(others).unwrap_or(usize::MAX);
        is_known.then(|| self.by_window.map(|keys| keys.saturating_add(others)))
    }

    /// What must be done for a request of `entry`. `facts` are those of the log so far.
    pub(super) fn needed(
        &self,
        request: &RequestView<'_>,
        entry: &Entry,
        facts: &Facts,
        now: Timestamp,
    ) -> Needed {
        let is_plain = !self.rules.has_disguised_name(request.headers());
        let selected = is_plain.then(|| self.rules.select(request).ok()).flatten();
        // What no route takes is not judged, and a preflight has limits of its own.
        let Some(route) = selected.filter(|_| *request.method() != http::Method::OPTIONS) else {
            return Needed::All;
        };
        let rule = self.rules.route(route);
        let Route { policies, access, .. } = rule;
        let subject = self.rules.subject(request, route, now);
        let mut foreseen = SmallVec::new();
        let client = self.rules.clients().settings();
        let is_denied =
            entry.has_address && access_of(access, &subject, client, facts) == Access::Denied;
        if is_denied || lacks_credentials(rule, entry) {
            // No policy is asked.
            return Needed::Some(route, foreseen);
        }
        for (policy, index) in policies.iter().zip(&self.routes[route]) {
            let Some(index) = *index else { return Needed::All };
            foreseen.push(match subject.key(policy) {
                KeyFor::Exempt(_) => Foreseen::Exempt,
                KeyFor::Key(key) => match self.windows(index, digest_of(key.principal)) {
                    Some(windows) => Foreseen::Judges { policy: index, windows },
                    None => return Needed::All,
                },
                _ => return Needed::All,
            });
        }
        Needed::Some(route, foreseen)
    }

    /// The windows in which a key can exceed the limit. None: it was not measured.
    fn windows(&self, policy: usize, digest: u64) -> Option<Windows> {
        let key: PolicyKey = (u16::try_from(policy).ok()?, digest);
        let is_measured = digest & (self.sampled_one_of - 1) == 0;
        is_measured.then(|| self.keys.get(key).copied().unwrap_or_default())
    }

    /// How many slots of the table were read.
    #[cfg(test)]
    pub(super) fn probes(&self) -> u64 {
        self.keys.probes.get()
    }
}

/// Whether the peaks contain all that a request costs.
const fn is_known_at_once(policy: &Policy) -> bool {
    matches!(policy.cost, Cost::Fixed(_) | Cost::Field { .. })
}
