//! Which requests a suggested limit can refuse. Only for these must it be tried, which
//! saves most of the work and of the memory: almost all keys stay far below the limit.

use std::sync::Arc;

use tollgate_limiter::policy::{Cost, KeyFor, Policy};
use tollgate_limiter::request::RequestView;
use tollgate_limiter::time::Timestamp;

use super::peaks::{Peaks, WINDOWS};
use super::suggest::Suggestions;
use super::trial::{Setup, digest_of, rules};
use crate::routes::Rules;

/// A key can exceed a limit only if so many times its peak does. A peak is the most in four
/// quarters of a window in a row. No algorithm compares more with a limit than what lies in
/// eight of them: a fixed window takes four (a day with 25 hours five), a sliding window this
/// one and the one before, and a log all requests of an interval of its length.
const MOST_PEAKS: u64 = 2;

/// Knows what the keys have used, and the limits that are suggested.
pub(super) struct Exceeding<'p> {
    rules: Rules,
    peaks: &'p Peaks,
    /// Of each policy, its name and the limit for each window. None: it must be tried for
    /// every request.
    limits: Vec<(Arc<str>, Option<[u64; WINDOWS.len()]>)>,
}

/// What must be done for a request.
pub(super) struct Needed {
    /// Whether the limits for a window must be tried.
    pub(super) windows: [bool; WINDOWS.len()],
    /// The policies that judge the request, as indices.
    pub(super) policies: smallvec::SmallVec<[usize; 4]>,
}

impl Needed {
    /// Everything.
    fn all() -> Self {
        Self { windows: [true; WINDOWS.len()], policies: smallvec::SmallVec::new() }
    }
}

impl<'p> Exceeding<'p> {
    /// For trials of `suggestions` for `setup`. `peaks` were measured in the same logs.
    pub(super) fn new(setup: &Setup, suggestions: &Suggestions, peaks: &'p Peaks) -> Self {
        let limits = setup.policies.iter().map(|policy| {
            let limits = suggestions.limits(&policy.name).filter(|_| is_known_at_once(policy));
            (Arc::clone(&policy.name), limits)
        });
        Self { rules: rules(setup), peaks, limits: limits.collect() }
    }

    /// What must be done for a request.
    pub(super) fn needed(&self, request: &RequestView<'_>, now: Timestamp) -> Needed {
        let is_plain = !self.rules.has_disguised_name(request.headers());
        let selected = is_plain.then(|| self.rules.select(request).ok()).flatten();
        // What no route takes is not judged, and a preflight has limits of its own.
        let Some(index) = selected.filter(|_| *request.method() != http::Method::OPTIONS) else {
            return Needed::all();
        };
        let subject = self.rules.subject(request, index, now);
        let mut needed = Needed { windows: [false; WINDOWS.len()], policies: Default::default() };
        for policy in &self.rules.route(index).policies {
            let known = self.limits.iter().position(|(name, _)| *name == policy.name);
            let limits = known.and_then(|at| Some((at, self.limits.get(at)?.1?)));
            let ((at, limits), key) = match (limits, subject.key(policy)) {
                (Some(limits), KeyFor::Key(key)) => (limits, digest_of(key.principal)),
                (Some(_), KeyFor::Exempt(_)) => continue,
                _ => return Needed::all(),
            };
            let Some(peak) = self.peaks.get(at, key) else { return Needed::all() };
            for (window, limit) in limits.into_iter().enumerate() {
                let most = u64::from(peak.most(window)).saturating_mul(MOST_PEAKS);
                needed.windows[window] |= most > limit;
            }
            needed.policies.push(at);
        }
        needed
    }
}

/// Whether the peaks contain all that a request costs.
const fn is_known_at_once(policy: &Policy) -> bool {
    matches!(policy.cost, Cost::Fixed(_) | Cost::Field { .. })
}
