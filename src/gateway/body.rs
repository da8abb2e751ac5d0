//! The body of a response, and what ends with it.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::closing::Closing;
use crate::message::FieldFilter;
use crate::proxy::{self, BrokenResponse};
use crate::telemetry::Measurement;

/// The body of a response, made by the gateway or by an upstream. It wraps the body of
/// the upstream because the request ends when the body does: dropping this value
/// completes the record of the request and settles its cost. Frames are counted, metered
/// and filtered here, so that no other wrapper is needed for these. It is boxed because it is
/// large, and its response moves many times.
#[derive(Debug)]
pub struct ResponseBody(Box<Inner>);

#[derive(Debug)]
struct Inner {
    content: Content,
    /// When the body must have ended.
    deadline: Option<Pin<Box<Sleep>>>,
    measurement: Option<Measurement>,
    closing: Closing,
}

#[derive(Debug)]
enum Content {
    /// Made by the gateway.
    Local(Bytes),
    /// Made by an upstream. The filter decides which trailers are passed on.
    Upstream(proxy::ResponseBody, Arc<FieldFilter>),
}

impl ResponseBody {
    fn new(content: Content) -> Self {
        let deadline = None;
        let measurement = None;
        let closing = Closing::NOTHING;
        Self(Box::new(Inner { content, deadline, measurement, closing }))
    }

    /// The body of a response that the gateway has made.
    pub fn local(bytes: Bytes) -> Self {
        Self::new(Content::Local(bytes))
    }

    pub fn upstream(body: proxy::ResponseBody, filter: Arc<FieldFilter>) -> Self {
        Self::new(Content::Upstream(body, filter))
    }

    /// The same body, which breaks off if it has not ended by `deadline`. A body that is
    /// already complete has no deadline.
    pub fn ending_by(mut self, deadline: Instant) -> Self {
        let may_be_late = !self.is_local() && !self.is_end_stream();
        self.0.deadline = may_be_late.then(|| Box::pin(sleep_until(deadline)));
        self
    }

    /// Whether the gateway has made it.
    pub fn is_local(&self) -> bool {
        matches!(self.0.content, Content::Local(_))
    }

    /// The same body, with what ends with it.
    pub fn followed_by(mut self, measurement: Measurement, closing: Closing) -> Self {
        self.0.measurement = Some(measurement);
        self.0.closing = closing;
        self
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenResponse;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenResponse>>> {
        let Inner { content, deadline, measurement, closing } = &mut *self.0;
        let Closing { recording, settlement } = closing;
        let is_overdue = deadline.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready());
        let polled = match content {
            _ if is_overdue => Poll::Ready(Some(Err(BrokenResponse::Overdue))),
            Content::Local(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Local(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Upstream(body, filter) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map(|frame| filter.frame(frame)))),
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    if let Some(recording) = recording {
                        recording.record.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    }
                    if let Some(settlement) = settlement {
                        settlement.observe(bytes);
                    }
                }
            }
            Poll::Ready(Some(Err(broken))) => {
                if let Some(measurement) = measurement {
                    measurement.broken(broken.reason());
                }
                if let Some(recording) = recording {
                    recording.record.outcome = broken.reason();
                }
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.0.content {
            Content::Local(bytes) => bytes.is_empty(),
            Content::Upstream(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0.content {
            Content::Local(bytes) => {
                SizeHint::with_exact(bytes.len().try_into().unwrap_or(u64::MAX))
            }
            Content::Upstream(body, _) => body.size_hint(),
        }
    }
}
