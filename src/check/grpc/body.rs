//! The bodies of answers to calls: one message with the status behind it, or nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    message: Bytes,
    /// Whether the status follows. If a call fails, the status is among the first fields.
    has_status: bool,
}

impl AnswerBody {
    /// One message in its frame, and the status of success.
    pub(super) const fn message(frame: Bytes) -> Self {
        Self { message: frame, has_status: true }
    }

    /// These bytes, and no status.
    pub(super) const fn plain(bytes: Bytes) -> Self {
        Self { message: bytes, has_status: false }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.message.is_empty() {
            let message = std::mem::take(&mut self.message);
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if std::mem::take(&mut self.has_status) {
            let status = HeaderMap::from_iter([(GRPC_STATUS, OK)]);
            return Poll::Ready(Some(Ok(Frame::trailers(status))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_empty() && !self.has_status
    }

    fn size_hint(&self) -> SizeHint {
        // A call with a status behind its message has no Content-Length.
        let bytes = self.message.len().try_into().unwrap_or(u64::MAX);
        if self.has_status { SizeHint::new() } else { SizeHint::with_exact(bytes) }
    }
}
