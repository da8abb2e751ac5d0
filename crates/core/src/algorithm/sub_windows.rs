//! Sub-windows that are counted conservatively: never more than the limit in any window.
//!
//! The window W is divided into m sub-windows of length g = ⌈W/m⌉, aligned to the epoch.
//! The current sub-window and the m previous ones are counted in full. They always cover
//! the last W, whatever the phase. With S units in them, a cost n is admitted iff S + n ≤
//! L.
//!
//! Bound: at most L in every window of length W, always. In the long run at least L/(W +
//! g). The usual count of m sub-windows instead of m + 1 was rejected: it forgets units up
//! to g too early, and admits 2L around an edge.

use super::operation::Attempt;
use super::quota::MAX_BUCKETS;
use super::{Quota, QuotaError, State};
use crate::time::{Span, Timestamp};

/// Sub-windows that are counted conservatively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubWindows {
    quota: Quota,
    buckets: u32,
    /// The number of counted sub-windows before the current one: the number of buckets.
    before: usize,
    length_us: u64,
}

/// The units that still count at one time.
struct Standing<'s> {
    /// Index of the current sub-window.
    newest: u64,
    /// Units of the sub-windows from `newest - before` on; those missing are empty.
    counts: &'s [u32],
    sum: u64,
}

impl SubWindows {
    /// Counts this quota in `buckets` sub-windows. With more buckets, units are available
    /// again sooner after the window has passed, and a key takes more memory.
    ///
    /// # Errors
    /// If there are no buckets or more than [`MAX_BUCKETS`], or the limit is
    /// above [`u32::MAX`]: the counts take 32 bits.
    pub fn new(quota: Quota, buckets: u32) -> Result<Self, QuotaError> {
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(QuotaError::Buckets);
        }
        if quota.limit() > u64::from(u32::MAX) {
            return Err(QuotaError::SubWindowsLimit);
        }
        let before = usize::try_from(buckets).map_err(|_| QuotaError::Buckets)?;
        let length_us = quota.window().as_micros().div_ceil(u64::from(buckets));
        Ok(Self { quota, buckets, before, length_us })
    }

    pub(super) const fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(super) const fn window(&self) -> Span {
        self.quota.window()
    }

    /// The number of sub-windows of the window.
    pub const fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The length of a sub-window, `g`.
    pub const fn length(&self) -> Span {
        Span::from_micros(self.length_us)
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let at = self.standing(state, now);
        let room = self.quota.limit().saturating_sub(at.sum);
        let outcome = if cost <= room {
            Ok(self.with(&at, cost))
        } else {
            Err(self.quota.limit().checked_sub(cost).map(|spare| self.earliest(&at, spare)))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    /// The time at which at most `spare` units are left, because the oldest have expired.
    fn earliest(&self, at: &Standing<'_>, spare: u64) -> Timestamp {
        let mut left = at.sum;
        let position = at.counts.iter().position(|&count| {
            left -= u64::from(count);
            left <= spare
        });
        self.end_of(at.newest, position.unwrap_or(self.before))
    }

    pub(super) const fn start_of(&self, newest: u64) -> Timestamp {
        Timestamp::from_micros(newest.saturating_mul(self.length_us))
    }

    pub(super) fn edge(&self, now: Timestamp) -> Timestamp {
        let ended = now.as_micros() / self.length_us;
        Timestamp::from_micros(ended.saturating_add(1).saturating_mul(self.length_us))
    }

    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        let at = self.standing(state, now);
        let mut counts = self.counts(&at);
        let age = at.newest.checked_sub(taken.as_micros() / self.length_us);
        let position = age.and_then(|age| self.before.checked_sub(usize::try_from(age).ok()?));
        if let Some(position) = position {
            let cost = u32::try_from(cost).unwrap_or(u32::MAX);
            counts[position] = counts[position].saturating_sub(cost);
        }
        State::Counts { newest: at.newest, counts }
    }

    /// A sub-window counts at most 2^32 - 1 units. The part of a debt beyond that is
    /// forgiven.
    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let at = self.standing(state, now);
        self.with(&at, units.min((2 * self.quota.limit()).saturating_sub(at.sum)))
    }

    /// The counts with these units added to the newest sub-window.
    fn with(&self, at: &Standing<'_>, units: u64) -> State {
        let mut counts = self.counts(at);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        counts[self.before] = counts[self.before].saturating_add(units);
        State::Counts { newest: at.newest, counts }
    }

    /// If the clock ran backwards, nothing has expired yet.
    fn standing<'s>(&self, state: Option<&'s State>, now: Timestamp) -> Standing<'s> {
        let present = now.as_micros() / self.length_us;
        let fresh = Standing { newest: present, counts: &[], sum: 0 };
        let Some(State::Counts { newest, counts }) = state else { return fresh };
        if counts.len() != self.before + 1 {
            return fresh;
        }
        let gone = usize::try_from(present.saturating_sub(*newest)).unwrap_or(usize::MAX);
        let counts = counts.get(gone..).unwrap_or_default();
        match counts.iter().map(|&count| u64::from(count)).sum() {
            0 => fresh,
            sum => Standing { newest: present.max(*newest), counts, sum },
        }
    }

    fn counts(&self, at: &Standing<'_>) -> Box<[u32]> {
        let mut counts = vec![0; self.before + 1].into_boxed_slice();
        counts[..at.counts.len()].copy_from_slice(at.counts);
        counts
    }

    /// The time from which on the sub-window at `position` of the counts does not count any
    /// more.
    fn end_of(&self, newest: u64, position: usize) -> Timestamp {
        let later = u64::try_from(position).unwrap_or(u64::MAX).saturating_add(1);
        Timestamp::from_micros(newest.saturating_add(later).saturating_mul(self.length_us))
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match state {
            State::Counts { newest, counts } => counts
                .iter()
                .rposition(|&count| count > 0)
                .map_or(Timestamp::default(), |position| self.end_of(*newest, position)),
            _ => Timestamp::default(),
        }
    }
}
