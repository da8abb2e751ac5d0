//! Time as the limiter sees it: integer microseconds.
//!
//! Every decision is a function of a [`Timestamp`] that somebody passes in, so
//! this is the one module that may read a clock (`clippy.toml` bans it in all
//! others). Integers, because sums of floats drift and Redis agrees with us
//! only on numbers below 2^53.
//!
//! There are three clocks, and each has its use:
//!
//! - [`Clock`] for what is remembered and compared later: counters, leases, what
//!   is cached. It runs evenly and follows the wall clock slowly, see
//!   `follower`.
//! - `wall` for what other machines and people wrote or read: the expiry of a
//!   token, the time in a log. Nothing of it is remembered, so a wrong time does
//!   no harm after it was put right.
//! - [`monotonic`] for durations and deadlines within this process.

mod clock;
pub(crate) mod follower;
mod process;
mod system;
mod value;

pub use clock::Clock;
pub use follower::{HOLD, SLOWEST};
pub use system::monotonic;
pub use value::{Span, Timestamp};
