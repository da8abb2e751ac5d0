//! Messages that the gateway itself writes, changes or looks into: its own
//! answers, the fields that a forwarded message may not keep or must gain, and
//! what a response says it cost. Pure.

mod edits;
mod failure;
mod fields;
mod filter;
mod forwarded;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod grpc;
mod redirect;
mod respond;
mod rewrite;
mod template;
mod websocket;

pub use edits::FieldEdits;
pub use failure::{Blame, Failure};
pub use fields::{
    X_REQUEST_ID, expects_continue, has_unknown_expectation, join_cookies, request_id,
    strip_hop_by_hop, strip_hop_by_hop_of_request, take_hop, unite_lengths,
};
pub use filter::FieldFilter;
pub use forwarded::{Forwarding, Via};
pub use redirect::{Location, LocationError, Redirect};
pub use respond::{AnswerStyle, Refusal, options};
pub use rewrite::{Prefix, Rewrite};
pub use websocket::{
    Carried, grants_websocket, switch_to_websocket, wants_websocket, websocket_key,
};
