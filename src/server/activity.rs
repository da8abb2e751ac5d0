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
    /// Since when the client has not read what it is being sent.
    stalled: Cell<Option<Instant>>,
    /// Whether the next response is the last one.
    ending: Cell<bool>,
}

impl Activity {
    /// A fresh connection owes a request as if it had begun to send one.
    pub(super) fn new() -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            since: Cell::new(monotonic()),
            stalled: Cell::new(None),
            ending: Cell::new(false),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(monotonic());
    }

    /// A request's head is complete.
    pub(super) fn begin(&self) {
        self.phase.set(Phase::Busy);
    }

    /// The connection is to end, but not in the middle of anything.
    pub(super) fn end(&self) {
        self.ending.set(true);
    }

    /// Whether the next response is the last one.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Something was written, or the client's side is full.
    fn wrote<T>(&self, written: &Poll<io::Result<T>>) {
        if written.is_ready() {
            self.stalled.set(None);
        } else if self.stalled.get().is_none() {
            self.stalled.set(Some(monotonic()));
        }
    }

    /// Whether the client takes longer than it may, to send or to read.
    pub(super) fn is_overdue(&self, timeouts: &ListenerTimeouts) -> bool {
        let lasts = |since: Instant, limit: Duration| monotonic().duration_since(since) >= limit;
        let is_late = match self.phase.get() {
            Phase::Idle => lasts(self.since.get(), timeouts.keep_alive),
            Phase::Head => lasts(self.since.get(), timeouts.request_head),
            Phase::Busy => false,
        };
        is_late || self.stalled.get().is_some_and(|since| lasts(since, timeouts.request_body))
    }

    /// How often to look: no limit is overrun by more than a quarter of the shortest.
    pub(super) fn interval(timeouts: &ListenerTimeouts) -> Duration {
        timeouts.request_head.min(timeouts.keep_alive).min(timeouts.request_body) / 4
    }
}

/// A stream that marks when a request begins to arrive, and when its client
/// does not read.
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
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.activity.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.activity.wrote(&written);
        written
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
