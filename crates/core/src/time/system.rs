//! The clocks of the system.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{Span, Timestamp};

/// The system's real-time clock, which may jump. Times that are stored never come from it.
#[expect(clippy::disallowed_methods, reason = "the only function that reads it")]
pub(super) fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_micros(since.map_or(0, |since| Span::from(since).as_micros()))
}

/// A monotonic reading for durations and deadlines, never for decisions. It is the clock of
/// the timers, so that tests can pause both.
#[expect(clippy::disallowed_methods, reason = "the only function that reads it")]
pub fn monotonic() -> Instant {
    tokio::time::Instant::now().into_std()
}
