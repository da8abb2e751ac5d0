//! Lines that the service adds to the head of a response in HTTP/1, beside its fields.
//!
//! The HTTP library gets each field as an entry of a map, and writes the entries as lines. For
//! fields that nothing reads in between, the map is a detour; see bench/NOTEBOOK.md. So their
//! lines are written beside the library, behind the status line that it writes.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use smallvec::SmallVec;
use tokio::io::AsyncWrite;

use super::exchange::Exchange;
use super::progress::Progress as _;

/// What the library may write before the status line, if nothing else waits to be written.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Room for the usual lines, so that they are allocated once.
const USUAL_BYTES: usize = 384;
/// The most memory that is kept between responses.
const MAX_KEPT_BYTES: usize = 4 * 1024;

/// The lines for the next response of a connection.
#[derive(Clone, Debug)]
pub struct HeadLines(Rc<Lines>);

#[derive(Debug)]
struct Lines {
    exchange: Rc<Exchange>,
    text: RefCell<Vec<u8>>,
    /// How many bytes of the text were written.
    written: Cell<usize>,
    /// How many bytes of the library come before the text. None: it is not known yet.
    before: Cell<Option<usize>>,
}

impl HeadLines {
    pub fn new(exchange: Rc<Exchange>) -> Self {
        let (text, written, before) = Default::default();
        Self(Rc::new(Lines { exchange, text, written, before }))
    }

    /// Where the lines for the response to the current request are appended, each with its end.
    /// The response must follow at once. None if lines cannot be added to it, because a part of
    /// an earlier response may not be written yet. (The library of today writes a response before
    /// it takes the next request.)
    pub fn open(&self) -> Option<RefMut<'_, Vec<u8>>> {
        let mut text = self.0.text.borrow_mut();
        if !text.is_empty() || !self.0.exchange.is_written() {
            return None;
        }
        text.reserve(USUAL_BYTES);
        Some(text)
    }

    /// Whether lines wait to be written.
    pub fn are_waiting(&self) -> bool {
        !self.0.text.borrow().is_empty()
    }

    /// Writes bytes of the library, with the lines behind the status line. Returns how many bytes
    /// of the library were written.
    ///
    /// # Errors
    /// If the stream fails, or the library writes no status line.
    pub fn poll_write<T: AsyncWrite + Unpin>(
        &self,
        cx: &mut Context<'_>,
        stream: &mut T,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let activity = self.0.exchange.activity();
        loop {
            let before = match self.0.before.get() {
                Some(before) => before,
                None => before_lines(bufs).ok_or(io::ErrorKind::InvalidData)?,
            };
            let count = {
                let text = self.0.text.borrow();
                let parts = inserted(&text[self.0.written.get()..], before, bufs);
                ready!(activity.poll_write_vectored(stream, cx, &parts))?
            };
            let of_library = self.advance(before, count);
            // A write of no byte would mean that the stream takes no more.
            if of_library > 0 || count == 0 {
                return Poll::Ready(Ok(of_library));
            }
        }
    }

    /// Counts bytes that were written: `before` bytes of the library, the text, and the rest of
    /// the library. Returns how many are of the library.
    fn advance(&self, before: usize, count: usize) -> usize {
        let mut text = self.0.text.borrow_mut();
        let left = text.len() - self.0.written.get();
        let of_text = count.saturating_sub(before).min(left);
        if of_text == left {
            text.clear();
            text.shrink_to(MAX_KEPT_BYTES);
            self.0.written.set(0);
            self.0.before.set(None);
        } else {
            self.0.written.set(self.0.written.get() + of_text);
            self.0.before.set(Some(before.saturating_sub(count)));
        }
        count - of_text
    }
}

/// The length of what the library writes before its first field: the status line, and perhaps a
/// 100 before it.
fn before_lines(bufs: &[IoSlice<'_>]) -> Option<usize> {
    let first = bufs.iter().find(|buf| !buf.is_empty())?;
    let skipped = if first.starts_with(CONTINUE) { CONTINUE.len() } else { 0 };
    memchr(b'\n', &first[skipped..]).map(|end| skipped + end + 1)
}

/// `bufs` with `text` behind their first `before` bytes.
fn inserted<'a>(
    text: &'a [u8],
    mut before: usize,
    bufs: &'a [IoSlice<'_>],
) -> SmallVec<[IoSlice<'a>; 8]> {
    let mut parts = SmallVec::new();
    let mut rest = bufs.iter();
    for buf in rest.by_ref() {
        if before <= buf.len() {
            let (first, second) = buf.split_at(before);
            parts.extend([first, text, second].map(IoSlice::new));
            break;
        }
        before -= buf.len();
        parts.push(IoSlice::new(buf));
    }
    parts.extend(rest.map(|buf| IoSlice::new(buf)));
    parts
}
