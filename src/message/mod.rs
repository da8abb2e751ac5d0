//! HTTP messages: the gateway's own responses, the fields that are removed from or added
//! to forwarded messages, and the cost that a response states. Pure.

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
    X_REQUEST_ID, decrement_max_forwards, expects_continue, has_unknown_expectation, join_cookies,
    merge_content_lengths, request_id, strip_hop_by_hop, strip_hop_by_hop_of_request,
};
pub use filter::FieldFilter;
pub use forwarded::{Forwarding, Via};
pub use redirect::{Location, LocationError, Redirect};
pub use respond::{ErrorFormat, options_response};
pub use rewrite::{Prefix, Rewrite};
pub use template::Refusal;
pub use websocket::{accepts_websocket, switch_to_websocket, wants_websocket, websocket_key};
