//! The body of a response, and what ends with it.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::closing::Closing;
use super::compressing::Stream;
use super::withholding::Withholding;
use crate::message::{Failure, FieldFilter, Piece};
use crate::proxy::{self, BrokenResponse};
use crate::telemetry::{CLIENT_CLOSED, Measurement};

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
    /// How many bytes it may still have.
    left: u64,
    measurement: Option<Measurement>,
    closing: Closing,
    progress: Progress,
    /// Why it has broken off. This is told one turn later, so that the client gets the head and what
    /// has come of the body before its connection ends.
    broken: Option<BrokenResponse>,
    /// What withholds an event of the body, if one is withheld.
    withholding: Option<Box<Withholding>>,
    /// What compresses the body, if it is compressed.
    compressed: Option<Box<Compressed>>,
}

/// How much of a body was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing. So it is if the response has no body on the wire, as that to HEAD.
    Unread,
    Begun,
    Ended,
}

/// A body that is compressed while it passes.
#[derive(Debug)]
struct Compressed {
    stream: Stream,
    /// What follows the last bytes: trailers, a failure, or nothing.
    rest: Option<Option<Result<Frame<Bytes>, BrokenResponse>>>,
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
        let left = u64::MAX;
        let measurement = None;
        let closing = Closing::NOTHING;
        let withholding = None;
        let compressed = None;
        Self(Box::new(Inner {
            content,
            deadline,
            left,
            measurement,
            closing,
            progress: Progress::Unread,
            broken: None,
            withholding,
            compressed,
        }))
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

    /// The same body, which breaks off if it has more than `max_bytes`.
    ///
    /// # Errors
    /// If its length is known to be larger.
    pub fn within(mut self, max_bytes: u64) -> Result<Self, Failure> {
        if self.size_hint().lower() > max_bytes {
            return Err(Failure::UpstreamResponseTooLarge);
        }
        self.0.left = max_bytes;
        Ok(self)
    }

    /// Whether the gateway has made it.
    pub fn is_local(&self) -> bool {
        matches!(self.0.content, Content::Local(_))
    }

    /// Withholds the event that states the tokens. The body must not have begun.
    pub fn withhold_usage(&mut self) {
        self.0.withholding = Some(Box::default());
    }

    /// Compresses the body. It must not have begun.
    pub fn compress(&mut self, stream: Stream) {
        self.0.compressed = Some(Box::new(Compressed { stream, rest: None }));
    }

    /// The same body, with what ends with it.
    pub fn followed_by(mut self, measurement: Measurement, closing: Closing) -> Self {
        self.0.measurement = Some(measurement);
        self.0.closing = closing;
        self
    }
}

impl Content {
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Local(bytes) => bytes.is_empty(),
            Self::Upstream(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Local(bytes) => SizeHint::with_exact(bytes.len().try_into().unwrap_or(u64::MAX)),
            Self::Upstream(body, _) => body.size_hint(),
        }
    }

    /// Whether all its bytes have been read. The end of its stream may come later, and the server need
    /// not ask for it.
    fn is_complete(&self) -> bool {
        self.is_end_stream() || self.size_hint().exact() == Some(0)
    }
}

/// What a body says when it is asked for its next frame.
type Polled = Poll<Option<Result<Frame<Bytes>, BrokenResponse>>>;

impl Inner {
    fn is_end_stream(&self) -> bool {
        if self.broken.is_some() {
            return false;
        }
        if let Some(compressed) = &self.compressed {
            return matches!(compressed.rest, Some(None));
        }
        if let Some(withholding) = &self.withholding {
            return withholding.has_ended();
        }
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.compressed.is_some() || self.withholding.is_some() {
            return SizeHint::default();
        }
        self.content.size_hint()
    }

    /// The next frame of the body as it was made. The settlement reads it.
    fn poll_content(&mut self, cx: &mut Context<'_>) -> Polled {
        let Self { content, deadline, left, measurement, closing, .. } = self;
        let Closing { recording, settlement } = closing;
        let is_overdue = deadline.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready());
        let polled = match content {
            _ if is_overdue => Poll::Ready(Some(Err(BrokenResponse::Overdue))),
            Content::Local(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Local(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Upstream(body, filter) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| within(left, frame?).map(|it| filter.frame(it)))),
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(settlement) = settlement {
                    frame.data_ref().into_iter().for_each(|bytes| settlement.observe(bytes));
                    if frame.is_trailers() || content.is_complete() {
                        settlement.ended();
                    }
                }
            }
            Poll::Ready(Some(Err(broken))) => {
                if let Some(measurement) = measurement {
                    measurement.broken(broken.reason());
                }
                if let Some(recording) = recording {
                    recording.record.failed(broken.reason());
                    recording.record.is_broken = true;
                }
                if let Some(settlement) = settlement {
                    settlement.broken();
                }
            }
            Poll::Ready(None) => {
                if let Some(settlement) = settlement {
                    settlement.ended();
                }
            }
            Poll::Pending => {}
        }
        polled
    }

    /// The next frame of the body as its client may see it.
    fn poll_visible(&mut self, cx: &mut Context<'_>) -> Polled {
        let Some(mut withholding) = self.withholding.take() else { return self.poll_content(cx) };
        let polled = self.poll_withholding(cx, &mut withholding);
        self.withholding = Some(withholding);
        polled
    }

    fn poll_withholding(&mut self, cx: &mut Context<'_>, to: &mut Withholding) -> Polled {
        let mut known = to.known();
        loop {
            if let Some(next) = known {
                return Poll::Ready(next);
            }
            known = match self.poll_content(cx) {
                Poll::Ready(next) => to.add(next),
                Poll::Pending => return Poll::Pending,
            };
        }
    }

    /// The next frame of the compressed form of the body.
    fn poll_compressed(&mut self, cx: &mut Context<'_>, to: &mut Compressed) -> Polled {
        let Compressed { stream, rest } = to;
        let compressor = &mut stream.compressor;
        loop {
            if let Some(rest) = rest {
                return Poll::Ready(rest.take());
            }
            let piece = match self.poll_visible(cx) {
                Poll::Ready(Some(Err(broken))) => {
                    *rest = Some(Some(Err(broken)));
                    compressor.pause()
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => compressor.add(&bytes),
                    Err(trailers) => {
                        *rest = Some(Some(Ok(trailers)));
                        compressor.end()
                    }
                },
                Poll::Ready(None) => {
                    *rest = Some(None);
                    compressor.end()
                }
                Poll::Pending => match compressor.pause() {
                    Piece::Pending => return Poll::Pending,
                    Piece::Ready => Piece::Ready,
                },
            };
            if piece == Piece::Ready {
                return Poll::Ready(Some(Ok(Frame::data(compressor.take()))));
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenResponse;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let inner = &mut *self.0;
        if let Some(broken) = inner.broken {
            return Poll::Ready(Some(Err(broken)));
        }
        let polled = match inner.compressed.take() {
            None => inner.poll_visible(cx),
            Some(mut compressed) => {
                let polled = inner.poll_compressed(cx, &mut compressed);
                inner.compressed = Some(compressed);
                polled
            }
        };
        if let Poll::Ready(Some(Err(broken))) = polled {
            inner.broken = Some(broken);
            inner.progress = Progress::Ended;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
            && let Some(recording) = &mut inner.closing.recording
        {
            recording.record.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        }
        inner.progress = match &polled {
            Poll::Ready(Some(Ok(frame))) if frame.is_data() => Progress::Begun,
            Poll::Ready(_) => Progress::Ended,
            Poll::Pending => Progress::Begun,
        };
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for Inner {
    /// A body that was begun and has more to give is dropped because its client has left.
    fn drop(&mut self) {
        if self.progress != Progress::Begun
            || self.is_end_stream()
            || self.size_hint().exact() == Some(0)
        {
            return;
        }
        if let Some(measurement) = &mut self.measurement {
            measurement.broken(CLIENT_CLOSED);
        }
        if let Some(recording) = &mut self.closing.recording {
            recording.record.left();
        }
    }
}

/// The frame, if its bytes are among those that are `left`.
fn within(left: &mut u64, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BrokenResponse> {
    let bytes = frame.data_ref().map_or(0, Bytes::len);
    let rest = left.checked_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
    *left = rest.ok_or(BrokenResponse::TooLarge)?;
    Ok(frame)
}
