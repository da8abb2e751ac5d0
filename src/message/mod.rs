//! Messages that the gateway itself writes or changes: its own answers, and the
//! fields that a forwarded message may not keep or must gain. Pure.

mod failure;
mod fields;
mod forwarded;
mod respond;
mod template;

pub use failure::{Blame, Failure};
pub use fields::{X_REQUEST_ID, request_id, strip_hop_by_hop};
pub use forwarded::{Forwarding, Via};
pub use respond::{AnswerStyle, Refusal};
pub use template::Template;
