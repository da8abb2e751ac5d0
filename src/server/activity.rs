//! What a connection is doing, and for how long it may.
//!
//! A timer for every request would cost more than the request's decision, so a
//! connection has one, and looks at it a few times within the shortest limit.
//! Requests only leave a mark of when something began.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;

use super::ListenerTimeouts;
use super::pace::{Demand, Pace};
use super::responses::Responses;
use crate::time::monotonic;

/// The bound that the library has for streams that it resets itself.
const MAX_NEEDLESS_ENDS: u32 = 1024;

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
    /// How fast the client must be, and how fast it reads what it is sent.
    demand: Demand,
    pace: RefCell<Pace>,
    /// Whether the next response is the last one.
    ending: Cell<bool>,
    /// Whether the client has said that nothing more will come.
    is_silent: Cell<bool>,
    /// Requests that have not been answered to the end: of HTTP/1 one at most.
    requests: Cell<usize>,
    /// Whether of HTTP/1 a part of a head has come and not its end, maybe behind a
    /// request that is under way.
    has_partial_head: Cell<bool>,
    /// Whether the rest of that head is no longer waited for.
    is_late: Cell<bool>,
    /// The head that has not come to its end, and since when. Of HTTP/2, where
    /// requests are under way meanwhile.
    open_head: Cell<Option<(u64, Instant)>>,
    /// Whether the library has shut the connection down.
    is_shut: Cell<bool>,
    /// How often the library has ended a connection of HTTP/2 without need.
    needless_ends: Cell<u32>,
    /// Of HTTP/2: its clients can refuse to read a response and still read the
    /// connection.
    responses: Option<RefCell<Responses>>,
}

impl Activity {
    /// A fresh connection owes a request as if it had begun to send one at `since`.
    pub(super) fn new(since: Instant, demand: Demand) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            since: Cell::new(since),
            demand,
            pace: RefCell::default(),
            ending: Cell::new(false),
            is_silent: Cell::new(false),
            requests: Cell::new(0),
            has_partial_head: Cell::new(false),
            is_late: Cell::new(false),
            open_head: Cell::new(None),
            is_shut: Cell::new(false),
            needless_ends: Cell::new(0),
            responses: None,
        }
    }

    /// The same for a connection of HTTP/2.
    pub(super) fn of_http2(since: Instant, demand: Demand) -> Self {
        Self { responses: Some(RefCell::default()), ..Self::new(since, demand) }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(monotonic());
    }

    /// A request's head is complete. The request is under way until the value is dropped.
    pub(super) fn begin(self: &Rc<Self>) -> UnderWay {
        self.phase.set(Phase::Busy);
        self.requests.set(self.requests.get() + 1);
        let place = self.responses.as_ref().map(|responses| responses.borrow_mut().begin());
        UnderWay { activity: Rc::clone(self), place }
    }

    /// The request that came last is served by this task.
    pub(super) fn started(&self, task: AbortHandle) {
        if let Some(responses) = &self.responses {
            responses.borrow_mut().started(task);
        }
    }

    /// The connection is to end, but not in the middle of anything.
    pub(super) fn end(&self) {
        self.ending.set(true);
    }

    /// Whether the next response is the last one.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Whether a connection that the library calls ended can go on all the same.
    ///
    /// The library resets the stream of an extended CONNECT that has a length, and
    /// then ends, and says so on no stream: it serves the other streams
    /// when it is polled again. A client may have it do so as often as it may have
    /// the library reset streams.
    pub(super) fn goes_on(&self) -> bool {
        let is_needless = self.responses.is_some() && !self.is_shut.get() && !self.is_silent.get();
        let ends = self.needless_ends.get();
        self.needless_ends.set(ends + u32::from(is_needless));
        is_needless && ends < MAX_NEEDLESS_ENDS
    }

    /// The library shuts the connection down.
    pub(super) fn shuts(&self) {
        self.is_shut.set(true);
    }

    /// The client has said that nothing more will come.
    pub(super) fn falls_silent(&self) {
        self.is_silent.set(true);
    }

    /// Whether it has.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.get()
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

    /// A look at HTTP/2: this head is on its way, or none is. Each has its own
    /// time, even if the next begins in the same piece in which one ends.
    pub(super) fn see_head(&self, open: Option<u64>) {
        if open != self.open_head.get().map(|(head, _)| head) {
            self.open_head.set(open.map(|head| (head, monotonic())));
        }
        if self.phase() == Phase::Head {
            self.enter(Phase::Idle);
        }
    }

    /// Something was written, or the client's side is full.
    pub(super) fn wrote(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.pace.borrow_mut().moves(*bytes, self.demand),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.pace.borrow_mut().waits(),
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
        is_late
            || self.open_head.get().is_some_and(|(_, since)| lasts(since, timeouts.request_head))
            || self.pace.borrow().is_late(self.demand, monotonic())
    }

    /// Gives up each response that the client takes too slowly, or not at all.
    pub(super) fn give_up_responses(&self) {
        if let Some(responses) = &self.responses {
            responses.borrow().give_up(self.demand, monotonic());
        }
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
    /// Among the responses of HTTP/2.
    place: Option<usize>,
}

impl UnderWay {
    /// Another piece of the response is asked for. If it is there, it has so many
    /// bytes, and it is the client's turn.
    fn is_asked(&self, given: Option<usize>) {
        if let (Some(responses), Some(place)) = (&self.activity.responses, self.place) {
            responses.borrow_mut().is_asked(place, given, self.activity.demand);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(responses), Some(place)) = (&self.activity.responses, self.place) {
            responses.borrow_mut().end(place);
        }
        let requests = &self.activity.requests;
        requests.set(requests.get() - 1);
        if requests.get() == 0 && self.activity.phase() == Phase::Busy {
            let is_next_on_its_way = self.activity.has_partial_head.get();
            self.activity.enter(if is_next_on_its_way { Phase::Head } else { Phase::Idle });
        }
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
        // Nothing is asked for before the client has room.
        under_way.is_asked(Some(0));
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
        let given = match &polled {
            Poll::Ready(Some(Ok(frame))) => Some(frame.data_ref().map_or(0, Buf::remaining)),
            Poll::Ready(_) => Some(0),
            Poll::Pending => None,
        };
        self.under_way.is_asked(given);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
