//! The requests and responses on an HTTP/2 connection.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use tokio::task::AbortHandle;
use tollgate_core::time::monotonic;

use super::activity::{Activity, InService};
use super::progress::Progress;
use super::responses::Responses;
use super::tracked_body::ActiveRequest;
use crate::server::settings::ListenerTimeouts;

/// How often a connection is resumed. The library has the same bound for streams that it
/// resets itself.
const MAX_RESUMPTIONS: u32 = 1024;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first bytes of the client.
    Preface,
    /// A request. None is active.
    Idle,
    /// The service. So many requests are active. Bodies have limits of their own.
    Busy(usize),
}

/// The requests and responses on one connection.
#[derive(Debug)]
pub struct Streams {
    activity: Activity,
    phase: Cell<Phase>,
    /// The number of the head that is incomplete, and since when. Other requests may be in
    /// progress meanwhile.
    open_head: Cell<Option<(u64, Instant)>>,
    /// Whether the client has reset streams lately.
    has_resets: Cell<bool>,
    /// Whether the library has shut the connection down.
    is_shut: Cell<bool>,
    /// The bound that the client has exceeded.
    excess: Cell<Option<&'static str>>,
    /// How often the connection was resumed after the library ended it.
    resumptions: Cell<u32>,
    /// A client can stop reading one response and still read the others.
    responses: RefCell<Responses>,
}

impl Streams {
    /// A new connection, whose preface is awaited.
    pub fn new(activity: Activity) -> Self {
        Self {
            activity,
            phase: Cell::new(Phase::Preface),
            open_head: Cell::new(None),
            has_resets: Cell::new(false),
            is_shut: Cell::new(false),
            excess: Cell::new(None),
            resumptions: Cell::new(0),
            responses: RefCell::default(),
        }
    }

    /// The client has exceeded this bound.
    pub fn exceeds(&self, bound: &'static str) {
        self.excess.set(Some(bound));
    }

    /// The bound that the client has exceeded; none if it has exceeded none.
    pub fn excess(&self) -> Option<&'static str> {
        self.excess.get()
    }

    /// Begins a request, whose head is complete.
    pub fn begin(self: &Rc<Self>) -> ActiveStream {
        let others = match self.phase.get() {
            Phase::Busy(count) => count,
            Phase::Preface | Phase::Idle => 0,
        };
        self.phase.set(Phase::Busy(others + 1));
        let slot = self.responses.borrow_mut().begin();
        ActiveStream { in_service: self.activity.enter_service(), streams: Rc::clone(self), slot }
    }

    /// A request has ended.
    fn end(&self, slot: usize) {
        self.responses.borrow_mut().end(slot);
        match self.phase.get() {
            Phase::Busy(count) if count > 1 => self.phase.set(Phase::Busy(count - 1)),
            _ => {
                self.phase.set(Phase::Idle);
                self.activity.restart();
            }
        }
    }

    /// The task that serves the latest request has started.
    pub fn started(&self, task: AbortHandle) {
        self.responses.borrow_mut().started(task);
    }

    /// The number of the head that is incomplete, if any. Each head has its own
    /// time limit, even if it begins in the same piece in which the previous one ends.
    pub fn set_open_head(&self, open: Option<u64>) {
        if open != self.open_head.get().map(|(head, _)| head) {
            self.open_head.set(open.map(|head| (head, monotonic())));
        }
        if self.phase.get() == Phase::Preface {
            self.phase.set(Phase::Idle);
            self.activity.restart();
        }
    }

    /// Sets whether the client has reset streams lately.
    pub fn set_resets(&self, has_resets: bool) {
        self.has_resets.set(has_resets);
    }

    /// Whether the client has reset streams lately. A new request may be one of those.
    pub fn has_resets(&self) -> bool {
        self.has_resets.get()
    }

    /// Whether no request is active, and since when.
    pub fn idle(&self) -> Option<Instant> {
        (self.phase.get() == Phase::Idle).then(|| self.activity.since())
    }

    /// The library shuts the connection down.
    pub fn on_shutdown(&self) {
        self.is_shut.set(true);
    }
}

impl Progress for Streams {
    fn activity(&self) -> &Activity {
        &self.activity
    }

    fn is_overdue(&self, timeouts: &ListenerTimeouts) -> bool {
        let is_late = match self.phase.get() {
            Phase::Preface => self.activity.lasts(timeouts.request_head),
            Phase::Idle if !self.activity.is_flushed() => {
                // The time begins when the client has taken what was written.
                self.activity.restart();
                false
            }
            Phase::Idle => self.activity.lasts(timeouts.keep_alive),
            Phase::Busy(_) => false,
        };
        let is_late_head = |(_, since)| monotonic().duration_since(since) >= timeouts.request_head;
        is_late || self.open_head.get().is_some_and(is_late_head) || self.activity.is_slow()
    }

    /// After the library resets the stream of an extended CONNECT that has a length, it
    /// reports the connection as ended, without telling the client. When it is polled
    /// again, it serves the other streams. This may happen as often as the library allows
    /// streams to be reset.
    fn resumes_after_end(&self) -> bool {
        let can_resume = !self.is_shut.get() && !self.activity.is_read_closed();
        let count = self.resumptions.get();
        self.resumptions.set(count + u32::from(can_resume));
        can_resume && count < MAX_RESUMPTIONS
    }

    fn ends_in_order(&self) -> bool {
        self.phase.get() == Phase::Idle && self.open_head.get().is_none()
    }

    fn abort_slow_responses(&self) {
        self.responses.borrow().abort_slow(self.activity.demand(), monotonic());
    }
}

/// A request of a connection, active until this is dropped.
#[derive(Debug)]
pub struct ActiveStream {
    streams: Rc<Streams>,
    /// Its slot among the responses.
    slot: usize,
    in_service: InService,
}

impl ActiveRequest for ActiveStream {
    const DIVIDES: bool = true;

    fn is_answered(&mut self) {
        self.streams.activity.leave_service(&mut self.in_service);
    }

    fn polled(&self, given: Option<usize>) {
        let demand = self.streams.activity.demand();
        self.streams.responses.borrow_mut().polled(self.slot, given, demand);
    }

    fn most_bytes(&self) -> usize {
        let demand = self.streams.activity.demand();
        self.streams.responses.borrow().most_bytes(self.slot, demand)
    }
}

impl Drop for ActiveStream {
    fn drop(&mut self) {
        self.streams.end(self.slot);
        self.is_answered();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    use super::*;
    use crate::server::settings::Demand;
    use crate::server::state::Place;
    use crate::server::state::activity::Watched;
    use crate::server::state::tracked_body::TrackedBody;

    /// An HTTP/2 client that gives no window reads nothing of a response: the request stays active
    /// for a long time.
    #[test]
    fn a_response_that_is_not_read_keeps_no_place() {
        let now = monotonic();
        let place = Arc::new(Place::new(now, now));
        let watched = Watched { place: Some(Arc::clone(&place)), ..Watched::default() };
        let streams = Rc::new(Streams::new(Activity::new(now, Demand::NONE, watched)));
        assert!(place.waiting().is_some());
        let page = streams.begin();
        let stream = streams.begin();
        assert!(place.waiting().is_none());
        let page = TrackedBody::new(Full::new(Bytes::from_static(b"page")), page);
        assert!(place.waiting().is_none(), "the other one has no answer yet");
        let frames = futures_util::stream::pending::<Result<Frame<Bytes>, io::Error>>();
        let stream = TrackedBody::new(StreamBody::new(frames), stream);
        assert!(place.waiting().is_none(), "a stream goes on");
        drop(stream);
        assert!(place.waiting().is_some());
        assert_eq!(streams.phase.get(), Phase::Busy(1));
        drop(page);
        assert!(place.waiting().is_some());
        assert_eq!(streams.phase.get(), Phase::Idle);
    }
}
