//! HTTP messages: the gateway's own responses, the fields that are removed from or added
//! to forwarded messages, and the cost that a response states. Pure.

#[cfg(any(test, feature = "fuzzing"))]
pub mod ask_fuzzing;
mod authorizer;
mod challenge;
mod compression;
mod cors;
mod edits;
mod failure;
mod fields;
mod filter;
mod forwarded;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod json;
mod length;
mod question;
pub mod read_body;
mod redirect;
mod refusals;
mod respond;
mod rewrite;
#[cfg(any(test, feature = "fuzzing"))]
pub mod rpc_fuzzing;
mod spare;
mod template;
#[cfg(test)]
mod tests;
mod tokens;
mod websocket;
mod whole_body;

pub use authorizer::{
    AnswerCacheSettings, AnswerPart, Answered, AuthorizerSettings, CHECK_PATH, CheckFault, Checked,
    KeptAnswers, MAX_KEPT_BYTES, ORIGINAL_FIELDS, Origin as QuestionOrigin,
    Question as AuthorizerQuestion, QuestionKey, Reuse, Taken, check_request, checked,
    question as authorizer_question,
};
pub use challenge::{add_challenges, add_wait};
pub use compression::{
    CompressSettings, Compressor, Encoding, Fate, MediaRange, Piece, accepted, weaken_etag,
    write_encoding, write_vary,
};
pub use cors::{Cors, CorsSettings, OWNED_FIELDS as CORS_FIELDS, OriginError, OriginPattern};
pub use edits::FieldEdits;
pub use failure::{
    Blame, Failure, MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES, RESPONSE_TOO_LARGE,
};
pub use fields::{
    X_REQUEST_ID, decrement_max_forwards, expects_continue, has_unknown_expectation, join_cookies,
    request_id, strip_hop_by_hop, strip_request, write_field,
};
pub use filter::FieldFilter;
pub use forwarded::{Forwarding, Via};
pub use length::{BadLength, content_length, merge_content_lengths};
pub use question::{BadQuestion, QuestionFault, QuestionParts};
pub use read_body::{Coding, Decoded, Decoder, Over, ReadBodySettings, USUAL_READ_BYTES};
pub use redirect::{Location, Redirect};
pub use refusals::RefusalSettings;
pub use respond::{failure_response, options_response, refusal_response};
pub use rewrite::{Prefix, Rewrite};
pub use spare::{empty_table, recycle};
pub use template::{Refusal, fill as fill_template};
pub use tokens::has_token;
pub use websocket::{accepts_websocket, switch_to_websocket, wants_websocket, websocket_key};
pub use whole_body::{BodyError, has_content_type, read_body, read_with_trailers};
