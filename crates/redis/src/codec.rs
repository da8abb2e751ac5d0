//! The bodies that the script receives, and its replies.
//!
//! The script decides and writes. Its reply has its time and the fields as they were before.
//! From these the [`Algorithm`](tollgate_core::algorithm::Algorithm) computes each number that a
//! client receives. So Redis and memory cannot disagree on numbers. If they disagree on
//! whether a request is admitted, the reply is an [`InvalidReply`].
//!
//! Decoding any bytes neither panics nor yields an invalid time.

mod answer;
mod body;
mod fields;
#[cfg(test)]
pub(super) mod tests;
mod wire;

pub use answer::{Answered, CounterReply, decode};
pub use body::Encoder;
pub use wire::InvalidReply;

pub use crate::shared::{Ahead, Ask, Asked};
