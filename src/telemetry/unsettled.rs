//! Warnings of requests whose cost is not known in the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tollgate_core::meter::Unsettled;
use tollgate_core::time::monotonic;
use tracing::warn;

/// The shortest time between two warnings of one policy and one cause.
const INTERVAL: Duration = Duration::from_secs(600);

/// When the log has last warned of each policy and cause. Clones are handles to the same times,
/// which all workers of a node share.
#[derive(Clone, Debug, Default)]
pub struct UnsettledWarnings(Arc<Mutex<Warned>>);

type Warned = HashMap<(Arc<str>, Unsettled), Instant>;

impl UnsettledWarnings {
    /// The cost of a request under this policy is not known. Warns if that is due.
    pub fn observe(&self, policy: &Arc<str>, cause: Unsettled) {
        if self.is_due(policy, cause, monotonic()) {
            let remedy = remedy(cause);
            warn!(
                %policy, cause = cause.word(), remedy,
                "the cost of a request is not known, so what was reserved for it stays charged"
            );
        }
    }

    /// Whether the log may warn. If it may, the caller does. Policies that have no warning within
    /// the interval are forgotten, so a policy of an earlier configuration needs no memory.
    fn is_due(&self, policy: &Arc<str>, cause: Unsettled, now: Instant) -> bool {
        let mut warned = self.0.lock();
        let is_recent = |last: &Instant| now.saturating_duration_since(*last) < INTERVAL;
        let key = (Arc::clone(policy), cause);
        if warned.get(&key).is_some_and(is_recent) {
            return false;
        }
        warned.retain(|_, last| is_recent(last));
        warned.insert(key, now);
        true
    }
}

/// What the operator can do.
const fn remedy(cause: Unsettled) -> &'static str {
    match cause {
        Unsettled::Absent => {
            "compare \"settle\" of the policy with a response; an API may state the cost of a stream \
             only if the request asks for it"
        }
        Unsettled::Encoded => {
            "the upstream encodes although the gateway asks for \"identity\": switch that off"
        }
        Unsettled::Broken => "see why the upstream or a deadline breaks responses off",
        Unsettled::Left => {
            "none is needed if clients may leave; reserve what a request costs at most"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_and_cause_has_one_warning_in_an_interval() {
        let warnings = UnsettledWarnings::default();
        let begin = monotonic();
        let [first, other]: [Arc<str>; 2] = ["first".into(), "other".into()];
        let due = |policy: &Arc<str>, cause, seconds| {
            warnings.clone().is_due(policy, cause, begin + Duration::from_secs(seconds))
        };
        assert!(due(&first, Unsettled::Absent, 0));
        assert!(!due(&first, Unsettled::Absent, 599));
        assert!(due(&first, Unsettled::Left, 599));
        assert!(due(&other, Unsettled::Absent, 599));
        assert!(due(&first, Unsettled::Absent, 600));
        assert!(!due(&first, Unsettled::Absent, 600));
        // What is old is forgotten.
        assert!(due(&first, Unsettled::Broken, 5_000));
        assert_eq!(warnings.0.lock().len(), 1);
    }
}
