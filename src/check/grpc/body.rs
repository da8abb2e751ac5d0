//! The bodies of answers to calls: one message or several with the status behind them, or nothing.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{LocalBoxStream, Stream};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Messages in their frames that come later. The fields of a failure end them.
type Later = LocalBoxStream<'static, Result<Bytes, HeaderMap>>;

/// The body of an answer.
pub struct AnswerBody {
    message: Bytes,
    /// The messages behind it.
    later: Option<Later>,
    /// Whether the status follows. If a call fails, the status is among the first fields.
    has_status: bool,
}

impl AnswerBody {
    /// One message in its frame, and the status of success.
    pub const fn message(frame: Bytes) -> Self {
        Self { message: frame, later: None, has_status: true }
    }

    /// A message in its frame, or none, others later, and the status.
    pub fn stream(
        frame: Bytes,
        later: impl Stream<Item = Result<Bytes, HeaderMap>> + 'static,
    ) -> Self {
        Self { later: Some(Box::pin(later)), ..Self::message(frame) }
    }

    /// These bytes, and no status.
    pub const fn plain(bytes: Bytes) -> Self {
        Self { message: bytes, later: None, has_status: false }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, later, has_status } = self;
        let shown = (message.len(), later.is_some(), has_status);
        f.debug_tuple("AnswerBody").field(&shown).finish()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.message.is_empty() {
            let message = std::mem::take(&mut self.message);
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if let Some(later) = &mut self.later {
            match ready!(later.as_mut().poll_next(cx)) {
                Some(Ok(message)) => return Poll::Ready(Some(Ok(Frame::data(message)))),
                Some(Err(status)) => {
                    (self.later, self.has_status) = (None, false);
                    return Poll::Ready(Some(Ok(Frame::trailers(status))));
                }
                None => self.later = None,
            }
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
