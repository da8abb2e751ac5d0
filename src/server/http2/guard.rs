//! The guard between the socket and the HTTP library: it inspects the frames of the client
//! as they arrive, and records what is read and written.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_core::time::monotonic;

use super::frames::Frames;
use crate::server::state::progress::Progress as _;
use crate::server::state::streams::Streams;

/// A stream of which the library reads no frame that is against the rules.
#[derive(Debug)]
pub struct Guard<T> {
    stream: T,
    streams: Rc<Streams>,
    frames: Frames,
    /// Bytes read since the task last yielded.
    turn_bytes: usize,
}

/// How many bytes are read before the task yields. The library reads as long as
/// there are bytes, and a few bytes can cause much work.
const TURN_BYTES: usize = 16 * 1024;

impl<T> Guard<T> {
    pub fn new(stream: T, streams: &Rc<Streams>, frames: Frames) -> Self {
        Self { stream, streams: Rc::clone(streams), frames, turn_bytes: 0 }
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

impl<T: AsyncWrite + Unpin> Guard<T> {
    /// Inspects bytes that were read.
    fn inspect(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> io::Result<()> {
        self.turn_bytes += bytes.len();
        if let Err(fault) = self.frames.inspect(bytes, monotonic) {
            fault.bound().into_iter().for_each(|bound| self.streams.exceeds(bound));
            let goaway = self.frames.goaway(fault);
            // The connection closes in any case. If there is room, the client gets the reason.
            // Otherwise it would interrupt a frame.
            if self.streams.activity().is_flushed()
                && Pin::new(&mut self.stream).poll_write(cx, &goaway).is_ready()
            {
                let _ = Pin::new(&mut self.stream).poll_flush(cx);
            }
            return Err(io::Error::other(fault));
        }
        self.streams.set_open_head(self.frames.open_head());
        self.streams.set_resets(self.frames.has_resets());
        Ok(())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.yields(cx) {
            return Poll::Pending;
        }
        let Self { stream, streams, .. } = &mut *self;
        let known = buf.filled().len();
        let polled = streams.activity().poll_read(stream, cx, buf);
        if polled.is_pending() {
            self.turn_bytes = 0;
        }
        ready!(polled)?;
        Poll::Ready(self.inspect(cx, &mut buf.filled_mut()[known..]))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, streams, .. } = &mut *self;
        streams.activity().poll_write(stream, cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, streams, .. } = &mut *self;
        streams.activity().poll_write_vectored(stream, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, streams, .. } = &mut *self;
        streams.activity().poll_flush(stream, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.streams.on_shutdown();
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
