//! How long a lease lasts.

use tollgate_core::algorithm::{Algorithm, Ban};
use tollgate_core::time::Span;

/// Windows shorter than this are not leased: a lease would be too short to save calls.
const MIN_WINDOW: Span = Span::SECOND;

/// The length of leases, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLength {
    /// A part of the window, in percent: from 1 to 100. With a token bucket, up to this part
    /// of the limit can be admitted above it.
    pub share_percent: u8,
    /// The maximum length of a lease.
    pub longest: Span,
}

impl Default for LeaseLength {
    /// 2 % of the window, at most 10 s.
    fn default() -> Self {
        Self { share_percent: 2, longest: Span::from_secs(10) }
    }
}

impl LeaseLength {
    /// The length of leases of this algorithm. None if it cannot be leased.
    pub fn of(self, algorithm: &Algorithm) -> Option<Span> {
        let leased = matches!(
            algorithm,
            Algorithm::SlidingWindow(_)
                | Algorithm::SubWindows(_)
                | Algorithm::FixedWindow(_)
                | Algorithm::TokenBucket(_)
        );
        (leased && algorithm.window() >= MIN_WINDOW).then(|| self.part_of(algorithm.window()))
    }

    /// How long the known state of a ban is used: this part of the first ban's length.
    pub(super) fn of_ban(self, ban: &Ban) -> Span {
        self.part_of(ban.first())
    }

    fn part_of(self, whole: Span) -> Span {
        let part_us = u128::from(whole.as_micros()) * u128::from(self.share_percent) / 100;
        let part = Span::from_micros(u64::try_from(part_us).unwrap_or(u64::MAX));
        part.max(Span::MILLISECOND).min(self.longest)
    }
}
