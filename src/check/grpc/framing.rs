//! Calls of gRPC with one message of the client ("gRPC over HTTP2", the project's
//! `doc/PROTOCOL-HTTP2.md`).
//!
//! The framing is written here, and not taken from `tonic`: its services need bodies that can be
//! sent to other threads, and those of this server cannot. It is small, because almost all calls
//! have one message, and no message is compressed.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use prost::Message;
use tollgate_core::refusal::grpc::{Code as GrpcCode, trailers_only};

use super::body::AnswerBody;
use crate::grpc::{FrameError, PREFIX_BYTES, frame, one_message};
use crate::message::{BodyError, read_body};
use crate::server::ClientBody;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const CONTENT_TYPE_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
/// The time for the way back of an answer, and for timers, which fire up to 3 ms late here: they
/// count whole milliseconds, and so does the wait for sockets.
const MARGIN: Duration = Duration::from_millis(5);

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub code: GrpcCode,
    pub message: Cow<'static, str>,
}

impl Failed {
    pub fn new(code: GrpcCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// A message that has a mistake.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(GrpcCode::InvalidArgument, message)
    }

    /// The fields behind messages.
    pub fn status(&self) -> HeaderMap {
        let (mut head, _) = trailers_only(self.code, &self.message, None).into_parts();
        head.headers.remove(CONTENT_TYPE);
        head.headers
    }

    /// The response.
    pub fn response(&self) -> Response<AnswerBody> {
        trailers_only(self.code, &self.message, None).map(AnswerBody::plain)
    }
}

impl From<FrameError> for Failed {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::TooLarge(_) => GrpcCode::ResourceExhausted,
            FrameError::Compressed => GrpcCode::Unimplemented,
            FrameError::NotOne => GrpcCode::Internal,
        };
        Self::new(code, error.to_string())
    }
}

/// Whether a request is a call. All others get a status of HTTP.
pub fn is_call(method: &Method, headers: &HeaderMap) -> Result<(), StatusCode> {
    if *method != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_grpc =
        |rest: &[u8]| matches!(rest, [] | [b';', ..] | [b'+', b'p', b'r', b'o', b't', b'o', ..]);
    match content_type.strip_prefix(CONTENT_TYPE_GRPC.as_bytes()) {
        Some(rest) if is_grpc(rest) => Ok(()),
        _ => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// The one message of a call, which takes at most `most_bytes`.
pub async fn read<M: Message + Default>(
    request: Request<ClientBody>,
    most_bytes: usize,
) -> Result<M, Failed> {
    let body = read_body(request.into_body(), PREFIX_BYTES + most_bytes).await;
    let body = body.map_err(|error| match error {
        BodyError::TooLarge => FrameError::TooLarge(most_bytes).into(),
        BodyError::Incomplete => incomplete(),
    })?;
    decode(body, most_bytes)
}

pub fn incomplete() -> Failed {
    Failed::new(GrpcCode::Cancelled, "the message did not arrive completely")
}

/// The message in a body.
fn decode<M: Message + Default>(body: Bytes, most_bytes: usize) -> Result<M, Failed> {
    decode_message(one_message(body, most_bytes)?)
}

/// The message in these bytes.
pub fn decode_message<M: Message + Default>(bytes: Bytes) -> Result<M, Failed> {
    M::decode(bytes).map_err(|error| Failed::invalid(format!("the message is malformed: {error}")))
}

/// The answer with this message.
pub fn reply(message: &impl Message) -> Response<AnswerBody> {
    success(AnswerBody::message(frame(message)))
}

/// The answer with a message in its frame, and others later.
pub fn stream(first: Bytes, later: impl Stream<Item = Bytes> + 'static) -> Response<AnswerBody> {
    success(AnswerBody::stream(first, later.map(Ok)))
}

/// The response that begins an answer.
pub fn success(body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, CONTENT_TYPE_GRPC);
    response
}

/// When the decision on a call that arrived at `now` must be made: when its client stops waiting,
/// less [`MARGIN`] or half of its time, whichever is less. None: the client names no time.
///
/// # Errors
/// If the time is malformed.
pub fn deadline(headers: &HeaderMap, now: Instant) -> Result<Option<Instant>, Failed> {
    let Some(value) = headers.get(GRPC_TIMEOUT) else { return Ok(None) };
    let timeout = value.to_str().ok().and_then(timeout);
    let timeout = timeout.ok_or_else(|| {
        Failed::new(GrpcCode::Internal, "grpc-timeout is not a number with a unit")
    })?;
    // A time beyond the range of the clock is no bound.
    Ok(now.checked_add(timeout - MARGIN.min(timeout / 2)))
}

/// At most eight digits, and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn frame(flag: u8, length: u32, message: &[u8]) -> Bytes {
        [&[flag][..], &length.to_be_bytes(), message].concat().into()
    }

    #[test]
    fn one_message_that_is_not_compressed_is_read() {
        let code = |body| decode::<u64>(body, 16).map_err(|failed| failed.code);
        // The message of a number has it in field 1.
        assert_eq!(code(frame(0, 2, &[8, 7])), Ok(7));
        assert_eq!(code(frame(0, 0, &[])), Ok(0));
        assert_eq!(code(frame(1, 2, &[8, 7])), Err(GrpcCode::Unimplemented));
        assert_eq!(code(frame(0, 3, &[8, 7])), Err(GrpcCode::Internal));
        assert_eq!(code(frame(0, 1, &[8, 7])), Err(GrpcCode::Internal));
        assert_eq!(code(frame(0, 2, &[8, 255])), Err(GrpcCode::InvalidArgument));
        assert_eq!(code(frame(0, 17, &[0; 17])), Err(GrpcCode::ResourceExhausted));
        assert_eq!(code(Bytes::from_static(&[0, 0])), Err(GrpcCode::Internal));
        assert_eq!(code(Bytes::new()), Err(GrpcCode::Internal));
    }

    #[tokio::test]
    async fn an_answer_has_a_frame_and_a_status_behind_it() {
        let response = reply(&7_u64);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(&body.to_bytes()[..], [0, 0, 0, 0, 2, 8, 7]);
        let failed = Failed::invalid("no domain").response();
        assert_eq!(failed.headers()["grpc-status"], "3");
        assert!(http_body::Body::is_end_stream(failed.body()));
    }

    #[test]
    fn only_posts_of_protocol_buffers_are_calls() {
        let status = |method, content_type: &str| {
            let value = HeaderValue::from_str(content_type).unwrap();
            is_call(&method, &HeaderMap::from_iter([(CONTENT_TYPE, value)]))
                .err()
                .map(|it| it.as_u16())
        };
        for good in ["application/grpc", "application/grpc+proto", "application/grpc;x=y"] {
            assert_eq!(status(Method::POST, good), None);
        }
        for bad in ["application/grpc-web", "application/grpc+json", "text/plain"] {
            assert_eq!(status(Method::POST, bad), Some(415));
        }
        assert_eq!(status(Method::GET, "application/grpc"), Some(405));
    }

    #[test]
    fn a_deadline_leaves_time_for_the_answer() {
        let now = tollgate_core::time::monotonic();
        let after = |text: &str| {
            let headers =
                HeaderMap::from_iter([(GRPC_TIMEOUT, HeaderValue::from_str(text).unwrap())]);
            deadline(&headers, now).map(|it| it.unwrap() - now)
        };
        assert_eq!(after("20m"), Ok(Duration::from_millis(15)));
        assert_eq!(after("1S"), Ok(Duration::from_millis(995)));
        assert_eq!(after("99999999H").unwrap().as_secs(), 99_999_999 * 3600 - 1);
        assert_eq!(after("3000u"), Ok(Duration::from_micros(1500)));
        assert_eq!(after("5n"), Ok(Duration::from_nanos(3)));
        for bad in ["", "m", "20", "20s", "-1S", "+1S", "123456789S", "1.5S"] {
            assert!(after(bad).is_err(), "{bad}");
        }
        assert_eq!(deadline(&HeaderMap::new(), now), Ok(None));
    }
}
