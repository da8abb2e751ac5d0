//! What a connection is doing, and for how long it may.
//!
//! A timer for every request would cost more than the request's decision, so a
//! connection has one, and looks at it a few times within the shortest limit.
//! Requests only leave a mark of when something began.
//!
//! It is also where those who serve one connection tell each other what they
//! know: the guard, the service, the body of a response, and who drives all.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ListenerTimeouts;
use crate::request::Malformed;
use crate::time::monotonic;

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
    /// Whether a part of a head has come and not its end, maybe behind a request
    /// that is under way.
    has_partial_head: Cell<bool>,
    /// Whether the rest of that head is no longer waited for.
    is_late: Cell<bool>,
    /// Why the last request of the connection is not the client's own.
    refused: Cell<Option<Malformed>>,
    /// Whether a response has begun and not ended.
    is_responding: Cell<bool>,
    /// Whether all has been written and no response has begun since.
    is_between_responses: Cell<bool>,
    /// Whether a request to change the protocol has been granted; none: not answered.
    upgraded: Cell<Option<bool>>,
    upgrade_waker: RefCell<Option<Waker>>,
}

impl Activity {
    /// A fresh connection owes a request as if it had begun to send one.
    pub(super) fn new() -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            since: Cell::new(monotonic()),
            stalled: Cell::new(None),
            has_partial_head: Cell::new(false),
            is_late: Cell::new(false),
            refused: Cell::new(None),
            is_responding: Cell::new(false),
            is_between_responses: Cell::new(true),
            upgraded: Cell::new(None),
            upgrade_waker: RefCell::default(),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(monotonic());
    }

    /// A part of a head has come.
    pub(super) fn head_begins(&self) {
        self.has_partial_head.set(true);
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// The rest of it has come, or will not be read.
    pub(super) fn head_is_whole(&self) {
        self.has_partial_head.set(false);
    }

    /// Whether the client is in the middle of a head, and nothing else is under way.
    pub(super) fn is_amid_head(&self) -> bool {
        self.phase.get() == Phase::Head && self.has_partial_head.get()
    }

    /// No longer waits for the rest of a head; false if there is none to wait for,
    /// or if it was said before.
    pub(super) fn give_up_head(&self) -> bool {
        self.is_amid_head() && !self.is_late.replace(true)
    }

    pub(super) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// The last request of the connection stands for one that was refused.
    pub(super) fn refuse(&self, malformed: Malformed) {
        self.refused.set(Some(malformed));
    }

    pub(super) fn refused(&self) -> Option<Malformed> {
        self.refused.get()
    }

    /// A request asks for another protocol.
    pub(super) fn ask_for_upgrade(&self) {
        self.upgraded.set(None);
    }

    /// It has been answered.
    pub(super) fn answer_upgrade(&self, granted: bool) {
        self.upgraded.set(Some(granted));
        let waker = self.upgrade_waker.borrow_mut().take();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    pub(super) fn upgraded(&self) -> Option<bool> {
        self.upgraded.get()
    }

    /// Who is to be woken by the answer.
    pub(super) fn wake_on_upgrade(&self, waker: &Waker) {
        *self.upgrade_waker.borrow_mut() = Some(waker.clone());
    }

    /// A request's head has been taken.
    pub(super) fn begin(&self) {
        self.phase.set(Phase::Busy);
        // Of the response before it something may be unwritten.
        self.is_between_responses.set(false);
    }

    /// The service has answered.
    pub(super) fn respond(&self) {
        self.is_responding.set(true);
    }

    /// The response has ended or was given up.
    pub(super) fn finish(&self) {
        self.is_responding.set(false);
        self.enter(if self.has_partial_head.get() { Phase::Head } else { Phase::Idle });
    }

    /// The HTTP library writes something.
    pub(super) fn writes(&self) {
        self.is_between_responses.set(false);
    }

    /// It has nothing left to write.
    pub(super) fn has_written(&self) {
        self.is_between_responses.set(!self.is_responding.get());
    }

    /// Whether what is written now stands before the next response.
    pub(super) fn is_between_responses(&self) -> bool {
        self.is_between_responses.get()
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

/// A stream that marks when its client does not read.
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
        Pin::new(&mut self.stream).poll_read(cx, buf)
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
        self.activity.finish();
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
