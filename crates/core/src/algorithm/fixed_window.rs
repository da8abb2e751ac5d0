//! One counter that restarts at the edge of every window.
//!
//! Windows of length W are aligned to the epoch, or are hours, days, weeks or months of
//! a time zone. With c units in the present window, a cost n is admitted iff
//! c + n ≤ L.
//!
//! Bound: L in every such window, but up to 2L at once around an edge. In the long run L/W.
//! Use it for quotas that restart on the hour.

use std::sync::Arc;

use super::calendar::Calendar;
use super::operation::Attempt;
use super::{Quota, QuotaError, State};
use crate::time::{Span, Timestamp};

/// One counter that restarts at the edge of every window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    quota: Quota,
    /// Shared, because it is large and the same for all limits.
    calendar: Option<Arc<Calendar>>,
}

impl FixedWindow {
    /// Counts this quota in windows aligned to the epoch, or in months of UTC.
    pub fn new(quota: Quota) -> Self {
        let calendar = quota.is_monthly().then(|| Arc::new(Calendar::months_of_utc()));
        Self { quota, calendar }
    }

    /// Counts this quota in hours, days, weeks (from Monday on) or months of the local time in
    /// this time zone: `zone` is a name of the IANA database. Days begin at local midnight and
    /// may last 23 or 25 hours.
    ///
    /// # Errors
    /// If the window is not an hour, a day, a week or a month, or the zone does not exist.
    #[cfg(feature = "calendar")]
    pub fn calendar(quota: Quota, zone: &str) -> Result<Self, QuotaError> {
        let calendar = Calendar::new(quota.window(), zone)?;
        Ok(Self { quota, calendar: Some(Arc::new(calendar)) })
    }

    pub(super) fn with_quota(&self, quota: Quota) -> Result<Self, QuotaError> {
        if quota.window() == self.window() {
            return Ok(Self { quota, calendar: self.calendar.clone() });
        }
        match self.zone() {
            None => Ok(Self::new(quota)),
            #[cfg(feature = "calendar")]
            Some(zone) => Self::calendar(quota, zone),
            // The only calendar is that of months.
            #[cfg(not(feature = "calendar"))]
            Some(_) => Err(QuotaError::CalendarWindow),
        }
    }

    pub(super) const fn limit(&self) -> u64 {
        self.quota.limit()
    }

    pub(super) const fn window(&self) -> Span {
        self.quota.window()
    }

    /// Whether its windows are months of a calendar.
    pub const fn is_monthly(&self) -> bool {
        self.quota.is_monthly()
    }

    /// The time zone of its calendar windows, if it has one.
    pub fn zone(&self) -> Option<&str> {
        self.calendar.as_deref().map(Calendar::zone)
    }

    pub(super) fn take(&self, state: Option<&State>, cost: u64, now: Timestamp) -> Attempt {
        let (window, current) = self.standing(state, now);
        let room = self.limit().saturating_sub(current);
        let outcome = if cost <= room {
            Ok(State::Fixed { window, current: current + cost })
        } else {
            Err((cost <= self.limit()).then(|| self.end_of(window)))
        };
        Attempt { room, outcome, delay: Span::ZERO }
    }

    pub(super) fn edge(&self, now: Timestamp) -> Timestamp {
        self.end_of(self.window_at(now))
    }

    pub(super) fn give(
        &self,
        state: Option<&State>,
        cost: u64,
        taken: Timestamp,
        now: Timestamp,
    ) -> State {
        let (window, current) = self.standing(state, now);
        let given = if self.window_at(taken) == window { cost } else { 0 };
        State::Fixed { window, current: current.saturating_sub(given) }
    }

    pub(super) fn charge(&self, state: Option<&State>, units: u64, now: Timestamp) -> State {
        let (window, current) = self.standing(state, now);
        let units = units.min((2 * self.limit()).saturating_sub(current));
        State::Fixed { window, current: current.saturating_add(units) }
    }

    /// The window that counts at `now`, and the units in it. If the clock ran backwards,
    /// this is the stored window.
    fn standing(&self, state: Option<&State>, now: Timestamp) -> (u64, u64) {
        let present = self.window_at(now);
        match state {
            Some(&State::Fixed { window, current: current @ 1.. }) if window >= present => {
                (window, current)
            }
            _ => (present, 0),
        }
    }

    /// The end of the window that contains `time`.
    pub fn end_at(&self, time: Timestamp) -> Timestamp {
        self.end_of(self.window_at(time))
    }

    /// The length of the window that contains `time`, if it is a month.
    pub(super) fn month_at(&self, time: Timestamp) -> Option<Span> {
        let calendar = self.calendar.as_deref().filter(|_| self.quota.is_monthly())?;
        let bounds = calendar.bounds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
        let length_s = bounds.end_s.saturating_sub(bounds.start_s);
        u64::try_from(length_s).ok().map(Span::from_secs)
    }

    /// The number that states use for the window at `time`.
    pub fn window_at(&self, time: Timestamp) -> u64 {
        match &self.calendar {
            None => time.as_micros() / self.window().as_micros(),
            Some(calendar) => {
                let time_s = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
                // The window that contains the epoch begins before it.
                u64::try_from(calendar.bounds(time_s).start_s).unwrap_or(0)
            }
        }
    }

    pub(super) fn start_of(&self, window: u64) -> Timestamp {
        let start_us = match &self.calendar {
            None => window.saturating_mul(self.window().as_micros()),
            Some(_) => Span::from_secs(window).as_micros(),
        };
        Timestamp::from_micros(start_us)
    }

    fn end_of(&self, window: u64) -> Timestamp {
        let end_us = match &self.calendar {
            None => window.saturating_add(1).saturating_mul(self.window().as_micros()),
            Some(calendar) => {
                let end_s = calendar.bounds(i64::try_from(window).unwrap_or(i64::MAX)).end_s;
                Span::from_secs(u64::try_from(end_s).unwrap_or(0)).as_micros()
            }
        };
        Timestamp::from_micros(end_us)
    }

    pub(super) fn expires_at(&self, state: &State) -> Timestamp {
        match *state {
            State::Fixed { window, current: 1.. } => self.end_of(window),
            _ => Timestamp::default(),
        }
    }
}
