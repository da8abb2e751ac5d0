//! gRPC: recognises calls, and makes the response to a call that does not reach its
//! service ("gRPC over HTTP2", the project's `doc/PROTOCOL-HTTP2.md`).
//!
//! Such a response is "Trailers-Only": status 200, no body, and the gRPC status in
//! fields. For any other HTTP status a client derives a gRPC status, and takes a refusal
//! for an outage: it maps 429 to `UNAVAILABLE`, which many clients retry at once.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, Response};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::request::Fields;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// How long a client waits before its next attempt, in milliseconds (gRFC A6,
/// "Pushback"). A negative number asks for no further attempt.
const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const NEVER: HeaderValue = HeaderValue::from_static("-1");

/// The ASCII characters that are escaped in `grpc-message`. All others that are not ASCII
/// are escaped too.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// The statuses of calls that do not reach their service (`doc/statuscodes.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The message did not arrive.
    Cancelled,
    /// The message cannot be understood.
    InvalidArgument,
    /// There was no answer in time.
    DeadlineExceeded,
    /// What is asked for does not exist.
    NotFound,
    /// The client has no right to it.
    PermissionDenied,
    /// The client is beyond a limit.
    ResourceExhausted,
    /// There is no such method.
    Unimplemented,
    /// The call breaks a rule of the protocol.
    Internal,
    /// The service is away. Another attempt is safe.
    Unavailable,
    /// The client has no valid token.
    Unauthenticated,
}

impl Code {
    const fn value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Cancelled => "1",
            Self::InvalidArgument => "3",
            Self::DeadlineExceeded => "4",
            Self::NotFound => "5",
            Self::PermissionDenied => "7",
            Self::ResourceExhausted => "8",
            Self::Unimplemented => "12",
            Self::Internal => "13",
            Self::Unavailable => "14",
            Self::Unauthenticated => "16",
        })
    }
}

/// Whether a request is a gRPC call. Calls of gRPC-Web are not: their status is in the
/// body.
pub fn is_call(method: &Method, fields: Fields<'_>) -> bool {
    const MEDIA_TYPE: &[u8] = b"application/grpc";
    let content_type = fields.get(&CONTENT_TYPE).map(HeaderValue::as_bytes);
    method == Method::POST
        && content_type.and_then(|value| value.split_at_checked(MEDIA_TYPE.len())).is_some_and(
            |(media_type, rest)| {
                media_type.eq_ignore_ascii_case(MEDIA_TYPE)
                    && matches!(rest, [] | [b'+' | b';' | b' ' | b'\t', ..])
            },
        )
}

/// The whole response to a call. `wait_ms` is how long a client should wait before its
/// next attempt. Without it, `ResourceExhausted` asks for no further attempt.
pub fn trailers_only(code: Code, message: &str, wait_ms: Option<u64>) -> Response<Bytes> {
    let message = utf8_percent_encode(message, ESCAPED).to_string();
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, code.value());
    headers.insert(
        GRPC_MESSAGE,
        HeaderValue::try_from(message).expect("what is left is printable ASCII"),
    );
    let never = (code == Code::ResourceExhausted).then_some(NEVER);
    if let Some(pushback) = wait_ms.map(HeaderValue::from).or(never) {
        headers.insert(GRPC_RETRY_PUSHBACK, pushback);
    }
    response
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_call_is_a_post_of_a_grpc_type() {
        let is_call = |method, content_type: Option<&'static str>| {
            let fields = content_type.map(|value| (CONTENT_TYPE, HeaderValue::from_static(value)));
            super::is_call(&method, Fields::of(&fields.into_iter().collect()))
        };
        let calls = ["application/grpc", "application/grpc+proto", "Application/GRPC; x=1"];
        for content_type in calls {
            assert!(is_call(Method::POST, Some(content_type)), "{content_type}");
            assert!(!is_call(Method::GET, Some(content_type)), "{content_type}");
            assert!(!is_call(Method::HEAD, Some(content_type)), "{content_type}");
        }
        let others = ["application/grpc-web", "application/grpc-web+proto", "application/grpcx"];
        for content_type in others.into_iter().chain(["application/json", "application/grp", ""]) {
            assert!(!is_call(Method::POST, Some(content_type)), "{content_type}");
        }
        assert!(!is_call(Method::POST, None));
    }

    #[test]
    fn a_response_is_trailers_only() {
        let response = trailers_only(Code::Unavailable, "the upstream is busy", None);
        assert_eq!(response.status(), 200);
        assert!(response.body().is_empty());
        let fields: Vec<_> = response.headers().iter().collect();
        assert_eq!(
            fields,
            [
                (&CONTENT_TYPE, &HeaderValue::from_static("application/grpc")),
                (&GRPC_STATUS, &HeaderValue::from_static("14")),
                (&GRPC_MESSAGE, &HeaderValue::from_static("the upstream is busy")),
            ]
        );
    }

    #[test]
    fn a_client_is_told_when_to_try_again_or_that_it_should_not() {
        let pushback = |code, wait_ms| {
            trailers_only(code, "", wait_ms).headers().get(GRPC_RETRY_PUSHBACK).cloned()
        };
        assert_eq!(pushback(Code::ResourceExhausted, Some(1501)).unwrap(), "1501");
        assert_eq!(pushback(Code::ResourceExhausted, None).unwrap(), "-1");
        assert_eq!(pushback(Code::Unavailable, None), None);
    }

    #[test]
    fn a_message_is_escaped_as_the_protocol_demands() {
        let response = trailers_only(Code::Internal, "50% of\n\"café\" ~\u{7F}", None);
        assert_eq!(response.headers()[GRPC_MESSAGE], "50%25 of%0A\"caf%C3%A9\" ~%7F");
    }

    proptest! {
        #[test]
        fn every_message_arrives_as_it_was_written(message in any::<String>()) {
            let response = trailers_only(Code::Internal, &message, None);
            let escaped = response.headers()[GRPC_MESSAGE].to_str().unwrap();
            prop_assert_eq!(percent_decode_str(escaped).decode_utf8().unwrap(), message);
        }
    }
}
