//! gRPC: recognises calls, and makes the response to a call that does not reach its service
//! ("gRPC over HTTP2", the project's `doc/PROTOCOL-HTTP2.md`).
//!
//! Such a response is "Trailers-Only": status 200, no body, and the gRPC status in fields. For
//! any other HTTP status a client derives a gRPC status, and takes a refusal for an outage.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// How long a client waits before its next attempt, in milliseconds (gRFC A6, "Pushback"). A
/// negative number asks for no further attempt.
const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const NEVER: HeaderValue = HeaderValue::from_static("-1");
/// The ASCII characters that are escaped in `grpc-message`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Whether a request is a gRPC call. Calls of gRPC-Web are not: their status is in the body.
pub(super) fn is_call(method: &Method, headers: &HeaderMap) -> bool {
    const MEDIA_TYPE: &[u8] = b"application/grpc";
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let parts = content_type.and_then(|value| value.split_at_checked(MEDIA_TYPE.len()));
    method == Method::POST
        && parts.is_some_and(|(media_type, rest)| {
            media_type.eq_ignore_ascii_case(MEDIA_TYPE)
                && matches!(rest, [] | [b'+' | b';' | b' ' | b'\t', ..])
        })
}

/// The whole response to a call (`doc/statuscodes.md`). `wait_ms` is how long a client should
/// wait before its next attempt.
pub(super) fn trailers_only(
    status: StatusCode,
    message: &str,
    wait_ms: Option<u64>,
) -> Response<Bytes> {
    let (code, pushback) = match status {
        StatusCode::TOO_MANY_REQUESTS => ("8", Some(wait_ms.map_or(NEVER, HeaderValue::from))),
        StatusCode::SERVICE_UNAVAILABLE => ("14", None),
        StatusCode::FORBIDDEN => ("7", None),
        StatusCode::UNAUTHORIZED => ("16", None),
        _ => ("13", None),
    };
    let message = utf8_percent_encode(message, ESCAPED).to_string();
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, HeaderValue::from_static(code));
    let message = HeaderValue::try_from(message).expect("what is left is printable ASCII");
    headers.insert(GRPC_MESSAGE, message);
    if let Some(pushback) = pushback {
        headers.insert(GRPC_RETRY_PUSHBACK, pushback);
    }
    response
}
