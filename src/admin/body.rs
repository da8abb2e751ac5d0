//! The bodies of calls: their types and their size.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::message::{BodyError, has_content_type, json, read_body};
use crate::server::ClientBody;

/// The largest body.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Bodies have one of these types, which no HTML form can send. None: a body is ignored.
pub fn check_content_type(allowed: Option<&[&str]>, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(allowed) = allowed else { return Ok(()) };
    if has_content_type(headers, allowed) {
        return Ok(());
    }
    let detail = format!("send the body with Content-Type: {}", allowed.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The whole body.
pub async fn read(body: ClientBody) -> Result<Bytes, Problem> {
    read_body(body, MAX_BODY_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 4 MiB")
        }
        BodyError::Incomplete => Problem::bad_request("the body is not complete"),
    })
}

/// A value of a body in JSON.
///
/// # Errors
/// 400, if it cannot be read.
pub fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    json::read(body).map_err(|json::Mistake { pointer, detail }| {
        let place = if pointer.is_empty() { pointer } else { format!("{pointer}: ") };
        Problem::bad_request(format!("the body is not as it should be: {place}{detail}"))
    })
}
