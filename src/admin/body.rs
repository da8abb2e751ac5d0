//! The bodies of calls: their types and their size.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::call::Call;
use super::problem::Problem;
use crate::message::{BodyError, has_content_type, read_body};
use crate::server::ClientBody;

/// The largest body.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Bodies have a type that no HTML form can send.
pub(super) fn check_content_type(call: &Call, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(allowed) = call.spec.body else { return Ok(()) };
    if has_content_type(headers, allowed) {
        return Ok(());
    }
    let detail = format!("send the body with Content-Type: {}", allowed.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The whole body.
pub(super) async fn read(body: ClientBody) -> Result<Bytes, Problem> {
    read_body(body, MAX_BODY_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 4 MiB")
        }
        BodyError::Incomplete => Problem::bad_request("the body is not complete"),
    })
}
