//! Bodies that can be sent again: the bytes that stream through are kept up to a
//! bound.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use super::tap::Tap;
use super::upload::Upload;
use crate::message::Failure;

/// Bytes that are kept of one body. A larger body is sent only once.
const MAX_BYTES: usize = 64 * 1024;

/// An upload, and the part of it that has already arrived.
#[derive(Debug)]
pub struct ReplayBuffer {
    upload: RefCell<Upload>,
    received: RefCell<Received>,
    /// How many times the body was begun. Only the latest [`Replay`] gets frames.
    begun: Cell<u32>,
}

/// The frames that have arrived, or none of them if they exceeded the bound.
#[derive(Debug, Default)]
struct Received {
    frames: Vec<Kept>,
    bytes: usize,
    is_discarded: bool,
}

#[derive(Clone, Debug)]
enum Kept {
    Data(Bytes),
    Trailers(HeaderMap),
}

/// One pass over a [`ReplayBuffer`].
#[derive(Debug)]
pub struct Replay {
    buffer: Rc<ReplayBuffer>,
    number: u32,
    /// Index of the next frame to take from the buffer.
    next: usize,
}

impl Received {
    fn discard(&mut self) {
        *self = Self { is_discarded: true, ..Self::default() };
    }

    fn add(&mut self, frame: &Frame<Bytes>) {
        if self.is_discarded {
            return;
        }
        let frame = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Kept::Data(data.clone()),
            (None, Some(trailers)) => Kept::Trailers(trailers.clone()),
            (None, None) => return,
        };
        if let Kept::Data(data) = &frame {
            self.bytes += data.len();
        }
        self.frames.push(frame);
        // Frames are bounded too: a body of single bytes would need many times its size.
        if self.bytes > MAX_BYTES || self.frames.len() > MAX_BYTES / 64 {
            self.discard();
        }
    }

    /// Bytes in the frames from index `next` on.
    fn bytes_from(&self, next: usize) -> u64 {
        let rest = self.frames.iter().skip(next).map(|frame| match frame {
            Kept::Data(data) => u64::try_from(data.len()).unwrap_or(u64::MAX),
            Kept::Trailers(_) => 0,
        });
        rest.sum()
    }
}

impl ReplayBuffer {
    /// Whether all that has arrived is still kept.
    pub fn is_whole(&self) -> bool {
        !self.received.borrow().is_discarded
    }
}

impl Replay {
    /// The first pass.
    pub fn new(upload: Upload) -> Self {
        let buffer = Rc::new(ReplayBuffer {
            upload: RefCell::new(upload),
            received: RefCell::default(),
            begun: Cell::new(1),
        });
        Self { buffer, number: 1, next: 0 }
    }

    /// Another pass from the beginning, unless the buffer was discarded.
    pub fn again(buffer: &Rc<ReplayBuffer>) -> Option<Self> {
        if buffer.received.borrow().is_discarded {
            return None;
        }
        let number = buffer.begun.get() + 1;
        buffer.begun.set(number);
        Some(Self { buffer: Rc::clone(buffer), number, next: 0 })
    }

    pub fn buffer(&self) -> Rc<ReplayBuffer> {
        Rc::clone(&self.buffer)
    }

    /// Copies the body while it passes for the first time.
    pub fn tap(&self, tap: Tap) {
        self.buffer.upload.borrow_mut().tap(tap);
    }

    pub fn upload<T>(&self, read: impl FnOnce(&Upload) -> T) -> T {
        read(&self.buffer.upload.borrow())
    }

    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let buffer = &self.buffer;
        if buffer.begun.get() != self.number {
            // The connection of this pass has ended. A frame taken here would be
            // missing in the later pass.
            return Poll::Ready(Some(Err(Failure::UpstreamClosed)));
        }
        let mut received = buffer.received.borrow_mut();
        if let Some(frame) = received.frames.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(match frame.clone() {
                Kept::Data(data) => Frame::data(data),
                Kept::Trailers(trailers) => Frame::trailers(trailers),
            })));
        }
        let polled = buffer.upload.borrow_mut().poll_frame(cx);
        if Rc::strong_count(buffer) == 1 {
            // The endpoint has responded, so there will be no other pass.
            received.discard();
        }
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            received.add(frame);
            self.next = received.frames.len();
        }
        polled
    }

    pub fn is_end_stream(&self) -> bool {
        let is_read = self.next >= self.buffer.received.borrow().frames.len();
        is_read && self.upload(Upload::is_end_stream)
    }

    pub fn size_hint(&self) -> SizeHint {
        let buffered = self.buffer.received.borrow().bytes_from(self.next);
        let rest = self.upload(Upload::size_hint);
        let mut whole = SizeHint::new();
        whole.set_lower(rest.lower().saturating_add(buffered));
        if let Some(upper) = rest.upper() {
            whole.set_upper(upper.saturating_add(buffered));
        }
        whole
    }
}
