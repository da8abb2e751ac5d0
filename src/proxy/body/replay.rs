//! Bodies that can be sent twice: what has gone by is remembered up to a bound,
//! while it streams through.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use super::request::Upload;
use crate::message::Failure;

/// Bytes that are remembered of one body. A larger one is sent once only.
const MAX_BYTES: usize = 64 * 1024;

/// An upload, and what has come of it.
#[derive(Debug)]
pub(in crate::proxy) struct Recording {
    upload: RefCell<Upload>,
    memory: RefCell<Memory>,
    /// How many times it was begun; only the last reader gets anything.
    readers: Cell<u32>,
}

/// The pieces that have come, or nothing if they were too much.
#[derive(Debug, Default)]
struct Memory {
    pieces: Vec<Piece>,
    bytes: usize,
    is_lost: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

/// One pass over a [`Recording`].
#[derive(Debug)]
pub(super) struct Reader {
    recording: Rc<Recording>,
    number: u32,
    /// The next piece to be given out of the memory.
    next: usize,
}

impl Memory {
    /// Nothing is remembered any more.
    fn forget(&mut self) {
        *self = Self { is_lost: true, ..Self::default() };
    }

    fn add(&mut self, frame: &Frame<Bytes>) {
        if self.is_lost {
            return;
        }
        let piece = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Piece::Data(data.clone()),
            (None, Some(trailers)) => Piece::Trailers(trailers.clone()),
            (None, None) => return,
        };
        if let Piece::Data(data) = &piece {
            self.bytes += data.len();
        }
        self.pieces.push(piece);
        // Pieces count too, or a body of single bytes would cost many times its size.
        if self.bytes > MAX_BYTES || self.pieces.len() > MAX_BYTES / 64 {
            self.forget();
        }
    }

    /// Bytes in the pieces from this one on.
    fn bytes_from(&self, next: usize) -> u64 {
        let rest = self.pieces.iter().skip(next).map(|piece| match piece {
            Piece::Data(data) => u64::try_from(data.len()).unwrap_or(u64::MAX),
            Piece::Trailers(_) => 0,
        });
        rest.sum()
    }
}

impl Reader {
    /// The first pass.
    pub(super) fn record(upload: Upload) -> Self {
        let recording = Rc::new(Recording {
            upload: RefCell::new(upload),
            memory: RefCell::default(),
            readers: Cell::new(1),
        });
        Self { recording, number: 1, next: 0 }
    }

    /// One more pass, if all that has come is remembered.
    pub(super) fn again(recording: &Rc<Recording>) -> Option<Self> {
        if recording.memory.borrow().is_lost {
            return None;
        }
        let number = recording.readers.get() + 1;
        recording.readers.set(number);
        Some(Self { recording: Rc::clone(recording), number, next: 0 })
    }

    pub(super) fn recording(&self) -> Rc<Recording> {
        Rc::clone(&self.recording)
    }

    pub(super) fn upload<T>(&self, read: impl FnOnce(&Upload) -> T) -> T {
        read(&self.recording.upload.borrow())
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let recording = &self.recording;
        if recording.readers.get() != self.number {
            // Its connection is gone; what it took would be missing elsewhere.
            return Poll::Ready(Some(Err(Failure::UpstreamClosed)));
        }
        let mut memory = recording.memory.borrow_mut();
        if let Some(piece) = memory.pieces.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(match piece.clone() {
                Piece::Data(data) => Frame::data(data),
                Piece::Trailers(trailers) => Frame::trailers(trailers),
            })));
        }
        let polled = recording.upload.borrow_mut().poll_frame(cx);
        if Rc::strong_count(recording) == 1 {
            // The endpoint has answered, so there will be no other pass.
            memory.forget();
        }
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            memory.add(frame);
            self.next = memory.pieces.len();
        }
        polled
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let is_read = self.next >= self.recording.memory.borrow().pieces.len();
        is_read && self.upload(Upload::is_end_stream)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let remembered = self.recording.memory.borrow().bytes_from(self.next);
        let rest = self.upload(Upload::size_hint);
        let mut whole = SizeHint::new();
        whole.set_lower(rest.lower().saturating_add(remembered));
        if let Some(upper) = rest.upper() {
            whole.set_upper(upper.saturating_add(remembered));
        }
        whole
    }
}
