//! What one policy has said of all requests.

use tollgate_core::algorithm::Retry;
use tollgate_core::decision::{Report, Ruling};
use tollgate_core::policy::Policy;
use tollgate_core::time::{Span, Timestamp};

use super::keys::KeySet;
use super::series::Series;
use std::sync::Arc;

/// What one policy has said of all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Requests that it has judged.
    pub(super) judged: u64,
    /// Requests that it refuses, or would refuse if it were not in shadow mode.
    pub(super) refused: u64,
    /// Of these, requests of clients that were banned.
    pub(super) banned: u64,
    /// Requests beyond the limit that it admits softly.
    pub(super) soft: u64,
    /// Requests that it refuses because they lack the key.
    pub(super) lacking: u64,
    /// Requests that no wait makes fit, because their cost is above the limit.
    pub(super) never: u64,
    /// Keys with at least one refusal.
    pub(super) keys_hit: KeySet,
    /// The longest wait that a refused client would be told.
    pub(super) longest_wait: Span,
    minute: Minute,
    /// The minute with the most refusals.
    pub(super) worst: Minute,
    /// Counts over time.
    pub(super) series: Series,
}

/// The refusals of one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Minute {
    /// Minutes since the epoch.
    pub(super) number: u64,
    /// Refusals in it.
    pub(super) refused: u64,
}

impl Tally {
    /// Whether the policy has judged no request.
    pub(super) const fn is_empty(&self) -> bool {
        self.judged == 0 && self.lacking == 0
    }

    /// Counts what the policy says of a request. `key` is the digest of its key. Returns the wait
    /// that the client is told if the policy refuses it.
    pub(super) fn add(
        &mut self,
        report: &Report<&Arc<Policy>>,
        now: Timestamp,
        key: u64,
    ) -> Option<Span> {
        let is_refused = report.refuses() || report.is_shadow_refused();
        self.judged += 1;
        self.soft += u64::from(report.ruling == Ruling::Soft);
        self.series.add(now.as_secs(), is_refused);
        if !is_refused {
            return None;
        }
        self.refused += 1;
        self.banned += u64::from(report.ruling == Ruling::Banned);
        let wait = match report.verdict.retry {
            Retry::After(wait) => wait,
            Retry::Never => {
                self.never += 1;
                Span::ZERO
            }
            Retry::Now => Span::ZERO,
        };
        self.longest_wait = self.longest_wait.max(wait);
        self.keys_hit.add(key);
        self.refused_at(now);
        Some(wait)
    }

    /// Counts a request that the policy refuses because it lacks the key.
    pub(super) fn add_lacking(&mut self, now: Timestamp) {
        self.lacking += 1;
        self.series.add(now.as_secs(), true);
        self.refused_at(now);
    }

    fn refused_at(&mut self, now: Timestamp) {
        let number = now.as_secs() / 60;
        if self.minute.number != number {
            self.minute = Minute { number, refused: 0 };
        }
        self.minute.refused += 1;
        if self.minute.refused > self.worst.refused {
            self.worst = self.minute;
        }
    }
}
