//! What a connection is doing, and for how long it may.
//!
//! A timer for every request would cost more than the request's decision, so a
//! connection has one, and looks at it a few times within the shortest limit.
//! Requests only leave a mark of when something began.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ListenerTimeouts;
use super::frames::Frames;
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
    /// Requests that have not been answered to the end: of HTTP/1 one at most.
    requests: Cell<usize>,
    /// Responses, of which a piece waits until the client has room for it.
    full: Cell<usize>,
    /// Whether of HTTP/1 a part of a head has come and not its end, maybe behind a
    /// request that is under way.
    has_partial_head: Cell<bool>,
    /// Whether the rest of that head is no longer waited for.
    is_late: Cell<bool>,
    /// When a response last went on. Only HTTP/2 looks at it: its clients can
    /// refuse to read a response and still read the connection.
    moved: Cell<Instant>,
}

impl Activity {
    /// A fresh connection owes a request as if it had begun to send one at `since`.
    pub(super) fn new(since: Instant) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            since: Cell::new(since),
            stalled: Cell::new(None),
            ending: Cell::new(false),
            requests: Cell::new(0),
            full: Cell::new(0),
            has_partial_head: Cell::new(false),
            is_late: Cell::new(false),
            moved: Cell::new(since),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(monotonic());
    }

    /// A request's head is complete. The request is under way until the value is dropped.
    pub(super) fn begin(self: &Rc<Self>) -> UnderWay {
        self.phase.set(Phase::Busy);
        self.requests.set(self.requests.get() + 1);
        UnderWay { activity: Rc::clone(self), is_full: false }
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

    /// Whether a request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.requests.get() > 0
    }

    /// Of HTTP/1: a part of a head has come.
    pub(super) fn head_begins(&self) {
        self.has_partial_head.set(true);
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Of HTTP/1: the rest of it has come, or will not be read.
    pub(super) fn head_is_whole(&self) {
        self.has_partial_head.set(false);
    }

    /// Whether the client is in the middle of a head of HTTP/1, and nothing else is
    /// under way.
    pub(super) fn is_amid_head(&self) -> bool {
        self.phase.get() == Phase::Head && self.has_partial_head.get()
    }

    /// No longer waits for the rest of a head; false if there is none to wait for,
    /// or if it was said before.
    pub(super) fn give_up_head(&self) -> bool {
        self.is_amid_head() && !self.is_late.replace(true)
    }

    /// Whether the rest of a head is no longer waited for.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// A look at HTTP/2: a head has begun to come, or none is on its way.
    fn see_head(&self, is_on_its_way: bool) {
        if is_on_its_way && self.phase() != Phase::Head {
            self.enter(Phase::Head);
        } else if !is_on_its_way && self.phase() == Phase::Head {
            match self.requests.get() {
                0 => self.enter(Phase::Idle),
                _ => self.enter(Phase::Busy),
            }
        }
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
            Phase::Busy => self.takes_nothing() && lasts(self.moved.get(), timeouts.request_body),
        };
        is_late || self.stalled.get().is_some_and(|since| lasts(since, timeouts.request_body))
    }

    /// Whether the client lets none of its responses go on.
    fn takes_nothing(&self) -> bool {
        self.full.get() > 0 && self.full.get() == self.requests.get()
    }

    /// How often to look: no limit is overrun by more than a quarter of the shortest.
    pub(super) fn interval(timeouts: &ListenerTimeouts) -> Duration {
        timeouts.request_head.min(timeouts.keep_alive).min(timeouts.request_body) / 4
    }
}

/// A request under way on a connection.
#[derive(Debug)]
pub(super) struct UnderWay {
    activity: Rc<Activity>,
    /// A piece of its response waits for the client.
    is_full: bool,
}

impl UnderWay {
    /// Whether a piece of the response has been given out, and no other asked for.
    fn set_full(&mut self, is_full: bool) {
        let full = &self.activity.full;
        match (self.is_full, is_full) {
            (false, true) => full.set(full.get() + 1),
            (true, false) => full.set(full.get() - 1),
            _ => {}
        }
        self.is_full = is_full;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.set_full(false);
        let requests = &self.activity.requests;
        requests.set(requests.get() - 1);
        if requests.get() == 0 && self.activity.phase() == Phase::Busy {
            let is_next_on_its_way = self.activity.has_partial_head.get();
            self.activity.enter(if is_next_on_its_way { Phase::Head } else { Phase::Idle });
        }
    }
}

/// A stream that marks when its client does not read, and of HTTP/2 when a
/// request begins to arrive. Of HTTP/1 the guard marks that.
#[derive(Debug)]
pub(super) struct Observed<T> {
    pub(super) stream: T,
    pub(super) activity: Rc<Activity>,
    /// Of HTTP/2.
    pub(super) frames: Option<Frames>,
}

impl<T> Observed<T> {
    /// These bytes have come.
    fn see(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(frames) = &mut self.frames {
            frames.see(bytes, monotonic).map_err(io::Error::other)?;
            self.activity.see_head(frames.is_in_head());
        }
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Observed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let known = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.see(&buf.filled()[known..]))
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

/// A response's body; when it ends, or is given up, its request is not under
/// way any more.
#[derive(Debug)]
pub(super) struct UntilIdle<B> {
    body: B,
    under_way: UnderWay,
}

impl<B> UntilIdle<B> {
    pub(super) fn new(body: B, under_way: UnderWay) -> Self {
        Self { body, under_way }
    }
}

impl<B: Body + Unpin> Body for UntilIdle<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.under_way.set_full(polled.is_ready());
        if polled.is_ready() {
            self.under_way.activity.moved.set(monotonic());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
