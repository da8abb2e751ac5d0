//! The body of a response, and what happens when it has ended.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::entry::Entry;
use super::owed::Owed;
use crate::proxy::{self, BrokenResponse};

/// The body of a response: the gateway's own or an upstream's. While it lasts
/// the request is under way; when it is dropped the request is written down, and
/// what it owes its counters is settled.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
    entry: Option<Box<Entry>>,
    owed: Option<Box<Owed>>,
}

#[derive(Debug)]
enum Source {
    Local(Bytes),
    Upstream(proxy::ResponseBody),
}

impl ResponseBody {
    pub(super) fn local(bytes: Bytes) -> Self {
        Self { source: Source::Local(bytes), entry: None, owed: None }
    }

    pub(super) fn upstream(body: proxy::ResponseBody) -> Self {
        Self { source: Source::Upstream(body), entry: None, owed: None }
    }

    /// Whether the gateway itself answers.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.source, Source::Local(_))
    }

    /// The same, with what is done at its end.
    pub(super) fn followed_by(self, entry: Option<Box<Entry>>, owed: Option<Box<Owed>>) -> Self {
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
        let Self { source, entry, owed } = &mut *self;
        let frame = match source {
            Source::Local(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Local(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Upstream(body) => Pin::new(body).poll_frame(cx),
        };
        if let (Some(entry), Poll::Ready(Some(frame))) = (entry, &frame) {
            match frame {
                Ok(frame) => entry.sent(frame.data_ref().map_or(0, Bytes::len)),
                Err(_) => entry.broke_off(),
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
            Source::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Local(bytes) => {
                SizeHint::with_exact(bytes.len().try_into().unwrap_or(u64::MAX))
            }
            Source::Upstream(body) => body.size_hint(),
        }
    }
}
