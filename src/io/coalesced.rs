//! The small writes of an HTTP/2 connection as one write.
//!
//! The HTTP library writes each request or response of a connection by itself. Each write costs a
//! system call, a record of TLS, and a wake-up of the peer; see bench/NOTEBOOK.md.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are held: those of a record of TLS (RFC 8446, section 5.1).
const MAX_HELD_BYTES: usize = 16 * 1024;
/// The memory for the first bytes. Most writes need no more.
const FIRST_BYTES: usize = 4 * 1024;

/// A stream that holds small writes while the library is polled.
///
/// One handle is for the library. The task that polls the library has another, and calls
/// [`Coalesced::end_poll`] after each poll, which writes the held bytes.
#[derive(Debug)]
pub struct Coalesced<T>(Rc<RefCell<Held<T>>>);

#[derive(Debug)]
struct Held<T> {
    stream: T,
    bytes: Vec<u8>,
    /// How many of the held bytes were written.
    written: usize,
    /// Whether the library has flushed the held bytes. If not, they can end inside a frame.
    needs_flush: bool,
    /// Why held bytes could not be written, until the library learns of it.
    error: Option<io::Error>,
}

impl<T> Clone for Coalesced<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: AsyncWrite + Unpin> Coalesced<T> {
    pub fn new(stream: T) -> Self {
        let held = Held { stream, bytes: Vec::new(), written: 0, needs_flush: false, error: None };
        Self(Rc::new(RefCell::new(held)))
    }

    /// Writes what the library has written while it was polled. An error ends the connection,
    /// because the library gets it in its next poll.
    pub fn end_poll(&self, cx: &mut Context<'_>) {
        let held = &mut *self.0.borrow_mut();
        if let Poll::Ready(Err(error)) = held.poll_write_and_flush(cx) {
            (held.bytes, held.written, held.needs_flush) = (Vec::new(), 0, false);
            held.error = Some(error);
            cx.waker().wake_by_ref();
        }
    }
}

impl<T: AsyncWrite + Unpin> Held<T> {
    /// Holds the bytes, if there is room.
    fn takes(&mut self, bufs: &[IoSlice<'_>], count: usize) -> bool {
        let has_room = self.bytes.len() + count <= MAX_HELD_BYTES;
        if has_room {
            if self.bytes.is_empty() {
                self.bytes.reserve(FIRST_BYTES.max(count));
            }
            bufs.iter().for_each(|buf| self.bytes.extend_from_slice(buf));
        }
        has_room
    }

    /// Writes all held bytes. An idle connection keeps no memory for them.
    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.bytes.len() {
            let rest = &self.bytes[self.written..];
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        (self.bytes, self.written) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    /// Writes all held bytes, and flushes them if the library has.
    fn poll_write_and_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_all(cx))?;
        if self.needs_flush {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// The error of an earlier write.
    fn check(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Coalesced<T> {
    /// Writes what the library has flushed first. So the stream below can end the connection with
    /// a frame of its own when it does not accept what it reads.
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let held = &mut *self.0.borrow_mut();
        // Without room for them, the peer is read all the same.
        if held.needs_flush
            && let Poll::Ready(written) = held.poll_write_and_flush(cx)
        {
            written?;
        }
        Pin::new(&mut held.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Coalesced<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let held = &mut *self.0.borrow_mut();
        held.check()?;
        held.needs_flush = false;
        let count = bufs.iter().map(|buf| buf.len()).sum();
        if held.takes(bufs, count) {
            return Poll::Ready(Ok(count));
        }
        ready!(held.poll_write_all(cx))?;
        Pin::new(&mut held.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.borrow().stream.is_write_vectored()
    }

    /// Ready at once while bytes are held: [`Coalesced::end_poll`] writes and flushes them.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = &mut *self.0.borrow_mut();
        held.check()?;
        if held.bytes.is_empty() {
            held.needs_flush = false;
            return Pin::new(&mut held.stream).poll_flush(cx);
        }
        held.needs_flush = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = &mut *self.0.borrow_mut();
        held.check()?;
        ready!(held.poll_write_all(cx))?;
        Pin::new(&mut held.stream).poll_shutdown(cx)
    }
}
