//! The bodies of calls: their types and their size.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::call::Call;
use super::problem::Problem;
use crate::server::ClientBody;

/// The largest body.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Bodies have a type that no HTML form can send.
pub(super) fn check_content_type(call: &Call, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(allowed) = call.spec.body else { return Ok(()) };
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let given = types.next().and_then(|it| it.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    let is_allowed = allowed.iter().any(|it| it.eq_ignore_ascii_case(essence));
    if is_allowed && types.next().is_none() {
        return Ok(());
    }
    let detail = format!("send the body with Content-Type: {}", allowed.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The whole body.
pub(super) async fn read(body: ClientBody) -> Result<Bytes, Problem> {
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 4 MiB"))
        }
        Err(_) => Err(Problem::bad_request("the body is not complete")),
    }
}
