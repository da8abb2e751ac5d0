//! One reading of the clock.

use std::time::Instant;

use super::Timestamp;

/// One moment on all clocks. It is one reading of the system's clock, because a reading takes as
/// long as about a hundred instructions.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time for decisions, see [`Clock::now`](super::Clock::now).
    pub now: Timestamp,
    /// The time of the wall clock, see [`Clock::wall`](super::Clock::wall). If that clock jumps,
    /// this follows within a tenth of a second.
    pub wall: Timestamp,
    /// The time for durations, see [`monotonic`](super::monotonic).
    pub monotonic: Instant,
}
