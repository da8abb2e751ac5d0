//! What a connection is doing, and for how long it may.
//!
//! A timer for every request would cost more than the request's decision, so a
//! connection has one, and looks at it a few times within the shortest limit.
//! Requests only leave a mark of when something began.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ListenerTimeouts;
use crate::time::monotonic;

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A request, and nothing of it has come yet.
    Idle,
    /// The rest of a request's head.
    Head,
    /// The service: bodies have limits of their own.
    Busy,
}

/// The phase of one connection, marked by all who see it change.
#[derive(Debug)]
pub(super) struct Activity {
    phase: Cell<Phase>,
    since: Cell<Instant>,
}

impl Activity {
    /// A fresh connection owes a request as if it had begun to send one.
    pub(super) fn new() -> Self {
        Self { phase: Cell::new(Phase::Head), since: Cell::new(monotonic()) }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(monotonic());
    }

    /// A request's head is complete.
    pub(super) fn begin(&self) {
        self.phase.set(Phase::Busy);
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Whether the present phase has lasted longer than it may.
    pub(super) fn is_overdue(&self, timeouts: &ListenerTimeouts) -> bool {
        let limit = match self.phase.get() {
            Phase::Idle => timeouts.keep_alive,
            Phase::Head => timeouts.request_head,
            Phase::Busy => return false,
        };
        monotonic().duration_since(self.since.get()) >= limit
    }

    /// How often to look: no limit is overrun by more than a quarter of the shortest.
    pub(super) fn interval(timeouts: &ListenerTimeouts) -> Duration {
        timeouts.request_head.min(timeouts.keep_alive) / 4
    }
}

/// A stream that marks when a request begins to arrive.
#[derive(Debug)]
pub(super) struct Observed<T> {
    pub(super) stream: T,
    pub(super) activity: Rc<Activity>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Observed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.activity.phase() == Phase::Idle && buf.filled().len() > filled {
            self.activity.enter(Phase::Head);
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Observed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A response's body; when it ends, or is given up, the connection is idle again.
#[derive(Debug)]
pub(super) struct UntilIdle<B> {
    body: B,
    activity: Rc<Activity>,
}

impl<B> UntilIdle<B> {
    pub(super) fn new(body: B, activity: Rc<Activity>) -> Self {
        Self { body, activity }
    }
}

impl<B> Drop for UntilIdle<B> {
    fn drop(&mut self) {
        self.activity.enter(Phase::Idle);
    }
}

impl<B: Body + Unpin> Body for UntilIdle<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
