//! Observes the stream of a connection below HTTP: whether the client reads, and which
//! frames it sends.

mod fragments;
mod frames;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_core::time::monotonic;

use crate::server::state::activity::Activity;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use frames::Fault;
pub(super) use frames::{Frames, PREFACE};

/// A stream that records whether its client reads and, for HTTP/2, when a head begins to
/// arrive. For HTTP/1 the guard records the latter.
#[derive(Debug)]
pub(crate) struct Observed<T> {
    pub(crate) stream: T,
    activity: Rc<Activity>,
    /// HTTP/2 only. Boxed, because each new connection of HTTP/1 is moved several times.
    frames: Option<Box<Frames>>,
    /// HTTP/2: bytes read since the task last yielded.
    turn_bytes: usize,
}

/// How many bytes of HTTP/2 are read before the task yields. The library reads as long as
/// there are bytes, and a few bytes can cause much work.
const TURN_BYTES: usize = 16 * 1024;

impl<T> Observed<T> {
    /// `frames`: for HTTP/2.
    pub(crate) fn new(stream: T, activity: &Rc<Activity>, frames: Option<Frames>) -> Self {
        let frames = frames.map(Box::new);
        Self { stream, activity: Rc::clone(activity), frames, turn_bytes: 0 }
    }

    /// Whether the task yields to other connections.
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
    /// Inspects bytes that were read.
    fn inspect(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> io::Result<()> {
        let Some(frames) = &mut self.frames else {
            return Ok(());
        };
        self.turn_bytes += bytes.len();
        if let Err(fault) = frames.inspect(bytes, monotonic) {
            let goaway = frames.goaway(fault);
            // The connection closes in any case. If there is room, the client gets the reason.
            // Otherwise it would interrupt a frame.
            if self.activity.is_flushed()
                && Pin::new(&mut self.stream).poll_write(cx, &goaway).is_ready()
            {
                let _ = Pin::new(&mut self.stream).poll_flush(cx);
            }
            return Err(io::Error::other(fault));
        }
        self.activity.set_open_head(frames.open_head());
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
            self.activity.waits_to_read();
            return Poll::Pending;
        };
        read?;
        self.activity.traffic().received(buf.filled().len() - known);
        if buf.filled().len() == known && buf.remaining() > 0 {
            self.activity.on_read_closed();
        }
        Poll::Ready(self.inspect(cx, &mut buf.filled_mut()[known..]))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Observed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.activity.on_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.activity.on_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.on_flush(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.on_shutdown();
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
