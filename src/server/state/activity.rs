//! What a connection is doing, and its time limits.
//!
//! A timer for each request would cost more than the decision about the request. So a
//! connection has ticks, of which a few come within the shortest limit, and requests only record
//! when something began.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;
use tollgate_core::time::monotonic;

use super::pace::Pace;
use super::place::Place;
use super::responses::Responses;
use crate::server::settings::{Demand, ListenerTimeouts};
use crate::telemetry::Traffic;

/// How often a connection is resumed. The library has the same bound for streams that it
/// resets itself.
const MAX_RESUMPTIONS: u32 = 1024;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A request. Nothing of it has arrived yet.
    Idle,
    /// The rest of a request head.
    Head,
    /// The service. Bodies have limits of their own.
    Busy,
}

/// Whether the library looks for further bytes of a client that waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It does, or there is no such client.
    Made,
    /// It was kept from looking, and the request is still active.
    PutOff,
    /// It was kept from looking, and the request has ended: it has to read the next one.
    Due,
}

/// The state of one connection, updated by the parts that see it change.
#[derive(Debug)]
pub(crate) struct Activity {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    /// The minimum speed of the client, and the speed at which it reads.
    demand: Demand,
    pace: RefCell<Pace>,
    /// Whether the next response is the last one.
    is_draining: Cell<bool>,
    /// Whether the client has closed its sending side.
    is_read_closed: Cell<bool>,
    /// Requests whose responses are not complete. Over HTTP/1 at most one.
    requests: Cell<usize>,
    /// HTTP/1: whether a part of a head has arrived and not its end, possibly behind a
    /// request in progress.
    has_partial_head: Cell<bool>,
    /// Whether the time for that head is over.
    is_late: Cell<bool>,
    /// HTTP/1: whether a read has waited for the client.
    has_waited: Cell<bool>,
    look: Cell<Look>,
    /// HTTP/2: the number of the head that is incomplete, and since when. Other requests
    /// may be in progress meanwhile.
    open_head: Cell<Option<(u64, Instant)>>,
    /// Whether everything that was written is with the system.
    is_flushed: Cell<bool>,
    /// HTTP/2: whether the library has shut the connection down.
    is_shut: Cell<bool>,
    /// HTTP/2: how often the connection was resumed after the library ended it.
    resumptions: Cell<u32>,
    /// HTTP/2: the responses, because a client can stop reading one and still read the
    /// others.
    responses: Option<RefCell<Responses>>,
    /// Requests that the service has not answered in full.
    in_service: Cell<usize>,
    watched: Watched,
}

/// What others learn of a connection.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Its bytes.
    pub(crate) traffic: Traffic,
    /// Its place, which another connection may take. None: none may.
    pub(crate) place: Option<Arc<Place>>,
}

impl Activity {
    /// A new HTTP/1 connection. The limit for its first head begins at `since`.
    pub(crate) fn new(since: Instant, demand: Demand) -> Self {
        Self {
            phase: Cell::new(Phase::Head),
            since: Cell::new(since),
            demand,
            pace: RefCell::default(),
            is_draining: Cell::new(false),
            is_read_closed: Cell::new(false),
            requests: Cell::new(0),
            has_partial_head: Cell::new(false),
            is_late: Cell::new(false),
            has_waited: Cell::new(false),
            look: Cell::new(Look::Made),
            open_head: Cell::new(None),
            is_flushed: Cell::new(false),
            is_shut: Cell::new(false),
            resumptions: Cell::new(0),
            responses: None,
            in_service: Cell::new(0),
            watched: Watched::default(),
        }
    }

    /// A new HTTP/2 connection. The limit for its preface begins at `since`.
    pub(crate) fn of_http2(since: Instant, demand: Demand) -> Self {
        Self { responses: Some(RefCell::default()), ..Self::new(since, demand) }
    }

    /// The same connection, of which others learn this.
    pub(crate) fn watched(self, watched: Watched) -> Self {
        Self { watched, ..self }
    }

    /// The same connection, which is idle since then.
    pub(crate) fn idle_since(self, since: Instant) -> Self {
        Self { phase: Cell::new(Phase::Idle), since: Cell::new(since), ..self }
    }

    /// The bytes of the connection.
    pub(crate) const fn traffic(&self) -> &Traffic {
        &self.watched.traffic
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(monotonic());
    }

    /// Begins a request, whose head is complete. It is active until the value is dropped.
    pub(crate) fn begin(self: &Rc<Self>) -> ActiveRequest {
        self.phase.set(Phase::Busy);
        self.requests.set(self.requests.get() + 1);
        let slot = self.responses.as_ref().map(|responses| responses.borrow_mut().begin());
        if let Some(place) = &self.watched.place {
            self.in_service.set(self.in_service.get() + 1);
            place.is_busy();
        }
        let is_in_service = self.watched.place.is_some();
        ActiveRequest { activity: Rc::clone(self), slot, is_in_service }
    }

    /// The service answers fewer requests than before, or a request has ended.
    fn is_answered(&self, count: usize) {
        self.in_service.set(self.in_service.get() - count);
        if let (Some(place), 0) = (&self.watched.place, self.in_service.get()) {
            place.waits(self.since.get());
        }
    }

    /// The task that serves the latest request has started.
    pub(crate) fn started(&self, task: AbortHandle) {
        if let Some(responses) = &self.responses {
            responses.borrow_mut().started(task);
        }
    }

    /// The next response is the last one.
    pub(crate) fn begin_drain(&self) {
        self.is_draining.set(true);
    }

    /// Whether the next response is the last one.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Whether a connection that the library reports as ended is polled again.
    ///
    /// After the library resets the stream of an extended CONNECT that has a length, it
    /// reports the connection as ended, without telling the client. When it is polled
    /// again, it serves the other streams. This may happen as often as the library allows
    /// streams to be reset.
    pub(crate) fn resumes_after_end(&self) -> bool {
        let can_resume =
            self.responses.is_some() && !self.is_shut.get() && !self.is_read_closed.get();
        let count = self.resumptions.get();
        self.resumptions.set(count + u32::from(can_resume));
        can_resume && count < MAX_RESUMPTIONS
    }

    /// The library shuts the connection down.
    pub(crate) fn on_shutdown(&self) {
        self.is_shut.set(true);
    }

    /// The client has closed its sending side.
    pub(crate) fn on_read_closed(&self) {
        self.is_read_closed.set(true);
    }

    /// Whether the client has closed its sending side.
    pub(crate) fn is_read_closed(&self) -> bool {
        self.is_read_closed.get()
    }

    /// Whether a request is active.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.get() > 0
    }

    /// HTTP/1: a part of a head has arrived.
    pub(crate) fn head_begins(&self) {
        self.has_partial_head.set(true);
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// HTTP/1: the rest of the head has arrived, or will not be read.
    pub(crate) fn head_ends(&self) {
        self.has_partial_head.set(false);
    }

    /// HTTP/1: whether a part of a head has arrived, and no request is active.
    pub(crate) fn is_reading_head(&self) -> bool {
        self.phase.get() == Phase::Head && self.has_partial_head.get()
    }

    /// Stops waiting for the rest of a head. Returns false if no head is incomplete, or if
    /// this was called before.
    pub(crate) fn give_up_head(&self) -> bool {
        self.is_reading_head() && !self.is_late.replace(true)
    }

    /// Whether the time for the current head is over.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// HTTP/1: whether the library may not look yet whether the client leaves. To be asked when
    /// it would, while a request is active and no more of it is to come.
    ///
    /// The look would make a new connection wait for further bytes, which costs two calls of the
    /// system and a buffer. If the client opens a connection for each request, nothing comes.
    pub(crate) fn puts_off_look(&self) -> bool {
        if !self.has_waited.get() {
            self.look.set(Look::PutOff);
        }
        !self.has_waited.get()
    }

    /// Whether the library has to look.
    pub(crate) fn look(&self) -> Look {
        self.look.get()
    }

    /// A read waits for the client, or may from now on.
    pub(crate) fn waits_to_read(&self) {
        self.has_waited.set(true);
        self.look.set(Look::Made);
    }

    /// HTTP/2: the number of the head that is incomplete, if any. Each head has its own
    /// time limit, even if it begins in the same piece in which the previous one ends.
    pub(crate) fn set_open_head(&self, open: Option<u64>) {
        if open != self.open_head.get().map(|(head, _)| head) {
            self.open_head.set(open.map(|head| (head, monotonic())));
        }
        if self.phase.get() == Phase::Head {
            self.enter(Phase::Idle);
        }
    }

    /// Records the result of a write: the client took bytes, or has no room.
    pub(crate) fn on_write(&self, written: &Poll<io::Result<usize>>) {
        self.is_flushed.set(false);
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.watched.traffic.sent(*bytes);
                self.pace.borrow_mut().moves(*bytes, self.demand);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.pace.borrow_mut().waits(),
        }
    }

    /// Records the result of a flush. The library flushes when it has nothing left to write.
    pub(crate) fn on_flush(&self, flushed: &Poll<io::Result<()>>) {
        self.is_flushed.set(matches!(flushed, Poll::Ready(Ok(()))));
    }

    /// Whether everything that was written is with the system.
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed.get()
    }

    /// Since when the connection is idle, and nothing is left to write.
    pub(crate) fn idle(&self) -> Option<Instant> {
        let is_idle = self.phase.get() == Phase::Idle && self.is_flushed.get();
        is_idle.then(|| self.since.get())
    }

    /// Whether the client has exceeded a time limit, in sending or in reading.
    pub(crate) fn is_overdue(&self, timeouts: &ListenerTimeouts) -> bool {
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

    /// Aborts each response that the client reads too slowly, or not at all.
    pub(crate) fn abort_slow_responses(&self) {
        if let Some(responses) = &self.responses {
            responses.borrow().abort_slow(self.demand, monotonic());
        }
    }

    /// The period of the ticks: no limit is exceeded by more than a quarter of the
    /// shortest one.
    pub(crate) fn interval(timeouts: &ListenerTimeouts) -> Duration {
        timeouts.request_head.min(timeouts.keep_alive).min(timeouts.request_body) / 4
    }
}

/// An active request of a connection.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    activity: Rc<Activity>,
    /// HTTP/2: its slot among the responses.
    slot: Option<usize>,
    /// Whether the service has to answer it, on a connection with a place.
    is_in_service: bool,
}

impl ActiveRequest {
    /// The service has given the response with this body. If it is whole, only the client is
    /// waited for: one that reads nothing cannot keep its place in this way.
    fn is_responded<B: Body>(&mut self, body: &B) {
        if self.is_in_service && body.size_hint().exact().is_some() {
            self.is_in_service = false;
            self.activity.is_answered(1);
        }
    }

    /// The client has room for another piece of the response. `given`: the bytes of that
    /// piece, which the client is now to read; None if the service has none yet.
    fn polled(&self, given: Option<usize>) {
        if let (Some(responses), Some(slot)) = (&self.activity.responses, self.slot) {
            responses.borrow_mut().polled(slot, given, self.activity.demand);
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let (Some(responses), Some(slot)) = (&self.activity.responses, self.slot) {
            responses.borrow_mut().end(slot);
        }
        let requests = &self.activity.requests;
        requests.set(requests.get() - 1);
        if requests.get() == 0 && self.activity.phase.get() == Phase::Busy {
            if self.activity.look.get() == Look::PutOff {
                self.activity.look.set(Look::Due);
            }
            let has_next = self.activity.has_partial_head.get();
            self.activity.enter(if has_next { Phase::Head } else { Phase::Idle });
        }
        self.activity.is_answered(usize::from(self.is_in_service));
    }
}

/// The body of a response. Its request is active until the body is dropped.
#[derive(Debug)]
pub(crate) struct TrackedBody<B> {
    body: B,
    active: ActiveRequest,
}

impl<B: Body> TrackedBody<B> {
    pub(crate) fn new(body: B, mut active: ActiveRequest) -> Self {
        active.is_responded(&body);
        // The first poll comes when the client has room.
        active.polled(Some(0));
        Self { body, active }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
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
        self.active.polled(given);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{Full, StreamBody};

    use super::*;

    /// An HTTP/2 client that gives no window reads nothing of a response: the request stays active
    /// for a long time.
    #[test]
    fn a_response_that_is_not_read_keeps_no_place() {
        let now = monotonic();
        let place = Arc::new(Place::new(now, now));
        let watched = Watched { place: Some(Arc::clone(&place)), ..Watched::default() };
        let activity = Rc::new(Activity::of_http2(now, Demand::NONE).watched(watched));
        assert!(place.waiting().is_some());
        let (page, stream) = (activity.begin(), activity.begin());
        assert!(place.waiting().is_none());
        let page = TrackedBody::new(Full::new(Bytes::from_static(b"page")), page);
        assert!(place.waiting().is_none(), "the other one has no answer yet");
        let frames = futures_util::stream::pending::<Result<Frame<Bytes>, io::Error>>();
        let stream = TrackedBody::new(StreamBody::new(frames), stream);
        assert!(place.waiting().is_none(), "a stream goes on");
        drop(stream);
        assert!(place.waiting().is_some() && activity.is_busy());
        drop(page);
        assert!(place.waiting().is_some() && !activity.is_busy());
    }
}
