//! HTTP messages: the gateway's own responses, the fields that are removed from or added
//! to forwarded messages, and the cost that a response states. Pure.

mod edits;
mod failure;
mod fields;
mod filter;
mod forwarded;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub(crate) mod json;
mod length;
mod question;
mod redirect;
mod respond;
mod rewrite;
mod spare;
mod template;
#[cfg(test)]
mod tests;
mod tokens;
mod websocket;
mod whole_body;

pub(crate) use edits::FieldEdits;
pub(crate) use failure::{Blame, Failure, MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES};
pub(crate) use fields::{
    X_REQUEST_ID, decrement_max_forwards, expects_continue, has_unknown_expectation, join_cookies,
    request_id, strip_hop_by_hop, strip_request, write_field,
};
pub(crate) use filter::FieldFilter;
pub(crate) use forwarded::{Forwarding, Via};
pub(crate) use length::{BadLength, content_length, merge_content_lengths};
pub(crate) use question::{BadQuestion, QuestionFault, QuestionParts};
pub(crate) use redirect::{Location, Redirect};
pub(crate) use respond::{failure_response, options_response, refusal_response};
pub(crate) use rewrite::{Prefix, Rewrite};
pub(crate) use spare::{empty_table, recycle};
pub(crate) use template::{Refusal, fill as fill_template};
pub(crate) use tokens::has_token;
pub(crate) use websocket::{
    accepts_websocket, switch_to_websocket, wants_websocket, websocket_key,
};
pub(crate) use whole_body::{BodyError, has_content_type, read_body};
