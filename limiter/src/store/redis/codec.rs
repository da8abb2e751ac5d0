//! What the script is asked, and what its answer means.
//!
//! The script says yes or no and writes; we explain. Its answer holds the time
//! and the fields as they were before, and from these the
//! [`Algorithm`](crate::algorithm::Algorithm) itself
//! computes every number a client is told. So Redis and memory cannot disagree
//! on numbers. Should they ever disagree on yes or no, the answer is refused as
//! [`InvalidReply`].
//!
//! Whatever bytes an answer has, reading it neither panics nor invents a time.

mod answer;
mod body;
mod fields;
#[cfg(test)]
pub(super) mod tests;
mod wire;

pub use answer::{Answered, CounterReply, decode};
pub use body::Encoder;
pub use wire::InvalidReply;

pub use crate::store::shared::{Ahead, Ask, Asked};
