//! How long a lease lasts.

use crate::algorithm::{Algorithm, Ban};
use crate::time::Span;

/// Windows shorter than this are not leased: a lease would be over before the
/// store's answer pays for itself.
const MIN_WINDOW: Span = Span::SECOND;

/// How long leases last, as the owner of the gateway has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseLength {
    /// A part of the window, in percent: from 1 to 100. With a token bucket it is
    /// also how much above the limit can be admitted.
    pub share_percent: u8,
    /// The longest that a lease lasts.
    pub longest: Span,
}

impl Default for LeaseLength {
    /// 2 % of the window, 10 s at most.
    fn default() -> Self {
        Self { share_percent: 2, longest: Span::from_secs(10) }
    }
}

impl LeaseLength {
    /// How long units of this algorithm are leased. None: they are not.
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

    /// How long it is believed that a client is banned, or is not: no longer than
    /// this part of the first ban.
    pub(super) fn of_ban(self, ban: &Ban) -> Span {
        self.part_of(ban.first())
    }

    fn part_of(self, whole: Span) -> Span {
        let part_us = u128::from(whole.as_micros()) * u128::from(self.share_percent) / 100;
        let part = Span::from_micros(u64::try_from(part_us).unwrap_or(u64::MAX));
        part.max(Span::MILLISECOND).min(self.longest)
    }
}
