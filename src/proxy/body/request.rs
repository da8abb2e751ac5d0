//! The body of a request on its way to an upstream.

use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::expect::Expectation;
use super::replay::{Replay, ReplayBuffer};
use super::tap::Tap;
use super::upload::{Progress, Upload};
use crate::message::{Failure, FieldFilter};
use crate::server::{ClientBody, Demand};

/// A request's body on its way to an upstream. Its errors are [`Failure`]s that
/// the client has caused.
#[derive(Debug)]
pub struct RequestBody(Kind);

#[derive(Debug)]
enum Kind {
    Empty,
    /// Streams through once. Boxed, because most requests have no body.
    Streamed(Box<Upload>),
    /// Streams through and is buffered, so that it can be sent again.
    Buffered(Replay),
    /// Bytes that are all there. None: they were read. Boxed, because few requests have them.
    Whole(Box<Option<Bytes>>),
}

/// What is needed to send a body again.
#[derive(Debug)]
pub enum BodyCopy {
    Empty,
    /// All bytes. Boxed, because a copy is a part of the future of each request.
    Whole(Box<Bytes>),
    /// The bytes that were buffered, followed by those that are still to arrive.
    Buffered(Rc<ReplayBuffer>),
}

impl BodyCopy {
    /// Whether [`Self::body`] returns a body.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Empty | Self::Whole(_) => true,
            Self::Buffered(buffer) => buffer.is_whole(),
        }
    }

    /// The body again, from its beginning; none if it has exceeded the buffer. The
    /// earlier body gets no more of it.
    pub fn body(&self) -> Option<RequestBody> {
        match self {
            Self::Empty => Some(RequestBody::EMPTY),
            Self::Whole(bytes) => Some(RequestBody::whole(Bytes::clone(bytes))),
            Self::Buffered(buffer) => {
                Replay::again(buffer).map(|replay| RequestBody(Kind::Buffered(replay)))
            }
        }
    }
}

impl RequestBody {
    /// No body.
    pub const EMPTY: Self = Self(Kind::Empty);

    /// The body `incoming`. At most `max_bytes` of it are read, and the client must
    /// send as fast as `demand` says. Trailers pass `filter`.
    ///
    /// # Errors
    /// If the announced length exceeds `max_bytes`.
    pub fn new(
        incoming: ClientBody,
        max_bytes: Option<u64>,
        demand: Demand,
        filter: &Arc<FieldFilter>,
    ) -> Result<Self, Failure> {
        if incoming.is_end_stream() {
            return Ok(Self::EMPTY);
        }
        let mut upload = Upload::new(incoming, max_bytes, demand, filter)?;
        upload.gather();
        Ok(Self(Kind::Streamed(Box::new(upload))))
    }

    /// All bytes of a body.
    pub fn whole(bytes: Bytes) -> Self {
        match bytes.is_empty() {
            true => Self::EMPTY,
            false => Self(Kind::Whole(Box::new(Some(bytes)))),
        }
    }

    /// Copies the body while it passes. It must not have begun.
    pub fn tap(&mut self, tap: Tap) {
        match &mut self.0 {
            Kind::Streamed(upload) => upload.tap(tap),
            Kind::Buffered(replay) => replay.tap(tap),
            Kind::Empty | Kind::Whole(_) => {}
        }
    }

    fn upload<T>(&self, read: impl FnOnce(&Upload) -> T) -> Option<T> {
        match &self.0 {
            Kind::Empty | Kind::Whole(_) => None,
            Kind::Streamed(upload) => Some(read(upload)),
            Kind::Buffered(replay) => Some(replay.upload(read)),
        }
    }

    /// The progress of the upload; none if there is no body.
    pub fn progress(&self) -> Option<Rc<Progress>> {
        self.upload(|upload| Rc::clone(upload.progress()))
    }

    /// The body is not read before `expectation` is met. It is buffered, so that the
    /// request can be sent again as long as none of it was read.
    pub fn hold_until(&mut self, expectation: &Expectation) {
        if let Kind::Streamed(upload) = &mut self.0 {
            upload.hold_until(expectation);
            self.buffer();
        }
    }

    /// The expectation that must be met before the body is read; none if it can be
    /// read at any time.
    pub fn expectation(&self) -> Option<Expectation> {
        self.upload(Upload::expectation).flatten()
    }

    /// Records why the body ends early.
    pub fn fail(&self, fault: Failure) {
        self.upload(|upload| upload.progress().fail(fault));
    }

    /// Buffers the body from now on, up to a bound.
    pub fn buffer(&mut self) {
        let kind = mem::replace(&mut self.0, Kind::Empty);
        self.0 = match kind {
            Kind::Streamed(upload) => Kind::Buffered(Replay::new(*upload)),
            Kind::Empty | Kind::Buffered(_) | Kind::Whole(_) => kind,
        };
    }

    /// What is needed to send the body again, if it is whole or buffered.
    pub fn copy(&self) -> Option<BodyCopy> {
        match &self.0 {
            Kind::Empty => Some(BodyCopy::Empty),
            Kind::Streamed(_) => None,
            Kind::Whole(bytes) => (**bytes).clone().map(|it| BodyCopy::Whole(Box::new(it))),
            Kind::Buffered(replay) => Some(BodyCopy::Buffered(replay.buffer())),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Streamed(upload) => upload.poll_frame(cx),
            Kind::Buffered(replay) => replay.poll_frame(cx),
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Streamed(upload) => upload.is_end_stream(),
            Kind::Buffered(replay) => replay.is_end_stream(),
            Kind::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Streamed(upload) => upload.size_hint(),
            Kind::Buffered(replay) => replay.size_hint(),
            Kind::Whole(bytes) => {
                let bytes = bytes.as_ref().as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
        }
    }
}
