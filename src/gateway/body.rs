//! The body of a response, and what happens when it has ended.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::entry::Entry;
use crate::engine::Settlement;
use crate::message::FieldFilter;
use crate::proxy::{self, BrokenResponse};

/// The body of a response: the gateway's own or an upstream's. While it lasts
/// the request is under way; when it is dropped the request is written down, and
/// what it owes its counters is settled.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
    /// When it must have ended, if there is such a time.
    deadline: Option<Pin<Box<Sleep>>>,
    entry: Option<Box<Entry>>,
    owed: Option<Box<Settlement>>,
}

#[derive(Debug)]
enum Source {
    Local(Bytes),
    /// An upstream's, and which of its trailers are passed on.
    Upstream(proxy::ResponseBody, Arc<FieldFilter>),
}

impl ResponseBody {
    const fn new(source: Source) -> Self {
        Self { source, deadline: None, entry: None, owed: None }
    }

    pub(super) const fn local(bytes: Bytes) -> Self {
        Self::new(Source::Local(bytes))
    }

    pub(super) const fn upstream(body: proxy::ResponseBody, filter: Arc<FieldFilter>) -> Self {
        Self::new(Source::Upstream(body, filter))
    }

    /// The same, broken off if it has not ended by then. What is at hand is
    /// never too late.
    pub(super) fn ending_by(self, deadline: Instant) -> Self {
        let may_be_late = !self.is_local() && !self.is_end_stream();
        Self { deadline: may_be_late.then(|| Box::pin(sleep_until(deadline))), ..self }
    }

    /// Whether the gateway itself answers.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.source, Source::Local(_))
    }

    /// The same, with what is done at its end.
    pub(super) fn followed_by(
        self,
        entry: Option<Box<Entry>>,
        owed: Option<Box<Settlement>>,
    ) -> Self {
        Self { entry, owed, ..self }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenResponse;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenResponse>>> {
        let Self { source, deadline, entry, owed } = &mut *self;
        let is_overdue = deadline.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready());
        let frame = match source {
            _ if is_overdue => Poll::Ready(Some(Err(BrokenResponse::Overdue))),
            Source::Local(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Local(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Upstream(body, filter) => Pin::new(body)
                .poll_frame(cx)
                .map(|piece| piece.map(|piece| piece.map(|piece| filter.piece(piece)))),
        };
        if let (Some(entry), Poll::Ready(Some(frame))) = (entry, &frame) {
            match frame {
                Ok(frame) => entry.sent(frame.data_ref().map_or(0, Bytes::len)),
                Err(broken) => entry.broke_off(*broken),
            }
        }
        if let (Some(owed), Poll::Ready(Some(Ok(frame)))) = (owed, &frame)
            && let Some(bytes) = frame.data_ref()
        {
            owed.observe(bytes);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Local(bytes) => bytes.is_empty(),
            Source::Upstream(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Local(bytes) => {
                SizeHint::with_exact(bytes.len().try_into().unwrap_or(u64::MAX))
            }
            Source::Upstream(body, _) => body.size_hint(),
        }
    }
}
