//! What the answer of a counter says of a limit that the client may have passed. Pure.

use crate::algorithm::{Retry, Verdict};
use crate::policy::Limit;
use crate::store::Source;
use crate::time::Span;

/// A counter beside its limit. The counter is judged by the soft limit, if there is one, and told
/// by the limit that responses name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The units that count against the limit, including those beyond it.
    pub used: u64,
    /// The units that are left of the limit.
    pub remaining: u64,
    /// Whether units beyond the limit are used.
    pub is_over: bool,
}

impl Reading {
    /// What `counted`, the verdict of the widest limit, says of `limit`.
    pub fn of(limit: Limit<'_>, counted: &Verdict, source: Source) -> Self {
        let widest = limit.widest();
        // One counter has two thresholds at a constant distance. A node that decides
        // without the store counts its share of both.
        let counts = |capacity: u64| match source {
            Source::Local => share(capacity, counted.limit, widest.limit()),
            Source::Store | Source::Policy | Source::Unasked => capacity,
        };
        let capacity = counts(widest.capacity());
        let margin = capacity.saturating_sub(counts(limit.algorithm.capacity()));
        Self {
            used: capacity.saturating_sub(counted.remaining),
            remaining: counted.remaining.saturating_sub(margin),
            is_over: counted.remaining < margin,
        }
    }
}

impl Verdict {
    /// This verdict for a client with this ban: a request fits when the ban has ended and the limit
    /// has room.
    #[must_use]
    pub fn under_ban(self, ban: &Self) -> Self {
        let wait = match ban.retry {
            Retry::After(wait) => wait,
            Retry::Now | Retry::Never => Span::ZERO,
        };
        Self {
            admitted: false,
            remaining: 0,
            retry: self.retry.max(ban.retry),
            reset_after: self.reset_after.max(wait),
            delay: Span::ZERO,
            ..self
        }
    }
}

/// The part of a capacity that is counted with `part` of a limit of `whole` units.
fn share(capacity: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(capacity) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(capacity).max(1)
}
