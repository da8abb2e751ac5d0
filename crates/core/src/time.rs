//! Time in integer microseconds.
//!
//! Every decision is a function of a [`Timestamp`] that the caller passes. So this is the
//! only module that may read a clock (`clippy.toml` bans it in all others). Times are
//! integers, because sums of floats lose precision, and Redis represents only integers
//! below 2^53 exactly.
//!
//! There are three clocks:
//!
//! - [`Clock`] for times that are stored and compared later: counters, leases, caches.
//!   It runs evenly and follows the wall clock slowly, see `follower`.
//! - `wall` for times that other machines write or people read: the expiry of a token,
//!   the time in a log. It is never stored, so a wrong time does no harm after it is
//!   corrected.
//! - [`monotonic`] for durations and deadlines within this process.

mod clock;
pub(crate) mod follower;
mod moment;
mod process;
mod system;
mod value;

pub use clock::Clock;
pub use follower::{HOLD, SLOWEST};
pub use moment::Moment;
pub use system::monotonic;
pub use value::{Span, Timestamp};
