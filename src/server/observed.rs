//! A connection's stream, seen from below HTTP: when its client does not read, and
//! what frames it sends.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;
use super::frames::Frames;
use crate::time::monotonic;

/// A stream that marks when its client does not read, and of HTTP/2 when a
/// request begins to arrive. Of HTTP/1 the guard marks that.
#[derive(Debug)]
pub(super) struct Observed<T> {
    pub(super) stream: T,
    pub(super) activity: Rc<Activity>,
    /// Of HTTP/2.
    pub(super) frames: Option<Frames>,
    /// Bytes of HTTP/2 that were read since others had their turn.
    turn_bytes: usize,
    /// Whether all that was written has been flushed, so that nothing is cut in two
    /// by what is written next.
    is_flushed: bool,
}

/// What is read of HTTP/2 before others have their turn: its library reads for as
/// long as there is something, and can be given much work in few bytes.
const TURN_BYTES: usize = 16 * 1024;

impl<T> Observed<T> {
    /// With `frames` of HTTP/2.
    pub(super) fn new(stream: T, activity: &Rc<Activity>, frames: Option<Frames>) -> Self {
        Self { stream, activity: Rc::clone(activity), frames, turn_bytes: 0, is_flushed: false }
    }

    /// Whether the task yields to others.
    fn yields(&mut self, cx: &Context<'_>) -> bool {
        let yields = self.turn_bytes >= TURN_BYTES;
        if yields {
            self.turn_bytes = 0;
            cx.waker().wake_by_ref();
        }
        yields
    }
}

impl<T: AsyncWrite + Unpin> Observed<T> {
    /// These bytes have come.
    fn see(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> io::Result<()> {
        let Some(frames) = &mut self.frames else {
            return Ok(());
        };
        self.turn_bytes += bytes.len();
        if let Err(fault) = frames.see(bytes, monotonic) {
            let goaway = frames.goaway(fault);
            // The connection ends in any case; a client that leaves room is told why.
            if self.is_flushed && Pin::new(&mut self.stream).poll_write(cx, &goaway).is_ready() {
                let _ = Pin::new(&mut self.stream).poll_flush(cx);
            }
            return Err(io::Error::other(fault));
        }
        self.activity.see_head(frames.open_head());
        Ok(())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Observed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.yields(cx) {
            return Poll::Pending;
        }
        let known = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) else {
            self.turn_bytes = 0;
            return Poll::Pending;
        };
        read?;
        if buf.filled().len() == known && buf.remaining() > 0 {
            self.activity.falls_silent();
        }
        Poll::Ready(self.see(cx, &mut buf.filled_mut()[known..]))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Observed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_flushed = false;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.activity.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_flushed = false;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.activity.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The library flushes when it has written all that it has.
        self.is_flushed = true;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.shuts();
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
