//! What algorithms remember of a key.
//!
//! Plain data: stores pack it, ship it and forget it, and only the algorithms
//! know what it means.

use super::Log;
use crate::time::Timestamp;

/// What an algorithm remembers of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// [`SlidingWindow`](super::SlidingWindow): a window's index since the epoch, the units admitted
    /// in it, and those of the window before.
    Sliding {
        /// Number of the window: it ends that many windows after the epoch.
        window: u64,
        /// Units admitted in that window.
        current: u64,
        /// Units admitted in the window before it.
        previous: u64,
    },
    /// [`FixedWindow`](super::FixedWindow): a window and the units admitted in it.
    Fixed {
        /// Index of the window, counted from the epoch. For a window of the
        /// calendar the second at which it begins.
        window: u64,
        /// Units admitted in that window.
        current: u64,
    },
    /// [`TokenBucket`](super::TokenBucket): how much was taken and has not been refilled yet.
    Bucket {
        /// When the level stood so.
        as_of: Timestamp,
        /// Tokens times the window in microseconds: a token is as many parts as
        /// the window has microseconds, and every microsecond refills as many
        /// parts as the limit has units.
        level: u128,
    },
    /// [`SubWindows`](super::SubWindows): units per sub-window, the oldest first, the last of
    /// them being the sub-window `newest`.
    Counts {
        /// Index of the newest sub-window, counted from the epoch.
        newest: u64,
        /// Units per sub-window, as many as the algorithm counts.
        counts: Box<[u32]>,
    },
    /// [`SlidingLog`](super::SlidingLog): everything admitted in the last window.
    Log(Log),
    /// [`LeakyBucket`](super::LeakyBucket): the slots that are taken and have not gone by yet.
    Queue {
        /// When the last of them was taken.
        as_of: Timestamp,
        /// The slots at that time, each as many parts as in `Bucket`.
        level: u128,
        /// Whether more than one take may have happened at `as_of`, so that
        /// none can be told to be the last.
        shared: bool,
    },
    /// [`Concurrency`](super::Concurrency): what was admitted and has not been given back.
    InFlight {
        /// Units in flight.
        units: u64,
    },
    /// [`Ban`](super::Ban): the last ban, and how many in a row it makes.
    Ban {
        /// From then on the client is not banned.
        until: Timestamp,
        /// Bans that are not forgotten yet.
        bans: u8,
    },
}
