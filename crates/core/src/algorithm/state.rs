//! The states that algorithms keep for a key.
//!
//! States are plain data. Stores pack, send and delete them, and only the algorithms
//! interpret them.

use super::Log;
use crate::time::Timestamp;

/// The state of one key under an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// [`SlidingWindow`](super::SlidingWindow): a window's index since the epoch, the units admitted
    /// in it, and those of the window before.
    Sliding {
        /// The number of the window, which ends that many windows after the epoch.
        window: u64,
        /// Units admitted in that window.
        current: u64,
        /// Units admitted in the window before it.
        previous: u64,
    },
    /// [`FixedWindow`](super::FixedWindow): a window and the units admitted in it.
    Fixed {
        /// Index of the window, counted from the epoch. For a calendar window, the second
        /// at which it begins.
        window: u64,
        /// Units admitted in that window.
        current: u64,
    },
    /// [`TokenBucket`](super::TokenBucket): the units that were taken and have not been
    /// refilled yet.
    Bucket {
        /// The time of this level.
        as_of: Timestamp,
        /// Tokens times the window in microseconds: a token has as many parts as the window
        /// has microseconds, and every microsecond refills as many parts as the limit has
        /// units.
        level: u128,
    },
    /// [`SubWindows`](super::SubWindows): units per sub-window, the oldest first. The last
    /// one is the sub-window `newest`.
    Counts {
        /// Index of the newest sub-window, counted from the epoch.
        newest: u64,
        /// Units per sub-window, as many as the algorithm counts.
        counts: Box<[u32]>,
    },
    /// [`SlidingLog`](super::SlidingLog): the units that were admitted in the last window.
    Log(Log),
    /// [`LeakyBucket`](super::LeakyBucket): the slots that are taken and still in the
    /// future.
    Queue {
        /// The time of the last take.
        as_of: Timestamp,
        /// The taken slots at that time. Each has as many parts as a token in `Bucket`.
        level: u128,
        /// Whether several takes may have happened at `as_of`. Then none can be identified
        /// as the last one.
        shared: bool,
    },
    /// [`Concurrency`](super::Concurrency): the units that were admitted and not given
    /// back.
    InFlight {
        /// Units in flight.
        units: u64,
    },
    /// [`Ban`](super::Ban): the last ban, and the number of bans in a row.
    Ban {
        /// The end of the last ban.
        until: Timestamp,
        /// The number of bans that are not forgotten yet.
        bans: u8,
    },
}
