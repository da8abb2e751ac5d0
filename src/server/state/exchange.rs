//! The requests and responses on an HTTP/1 connection.
//!
//! Three parts see a connection change: the guard, which reads in front of the HTTP library; the
//! service behind it; and the writer of what the library has written. Each has a state here, and
//! all transitions are in this file.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::spawn_local;
use tollgate_core::request::Malformed;

use super::activity::{Activity, InService};
use super::progress::{Look, Progress};
use super::tracked_body::ActiveRequest;
use crate::server::settings::ListenerTimeouts;

/// How many unread bytes of a body are read and discarded to keep a connection, because a
/// new connection would cost more.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024;

/// What the service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first request of a new connection is awaited. The time for its head passes.
    Opening,
    /// A request is awaited.
    Idle,
    /// The service has a request, and has not responded. Bodies have limits of their own.
    Serving {
        /// Whether the client sends the body only after "100 Continue", and has not received it.
        holds_body: bool,
    },
    /// The service has responded, and the library has not taken the whole response.
    Responding {
        /// Whether the connection then closes.
        is_last: bool,
    },
    /// The last response is complete.
    Closing,
}

/// How far the guard has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// To the end of a request.
    Between,
    /// The same, and the library waits for the next request.
    Awaited,
    /// A part of a head, possibly behind a request in progress.
    Head {
        /// Whether the time for it is over.
        is_late: bool,
    },
    /// A part of the body of this request. `left`: the bytes that have not passed the guard.
    Body { request: u64, left: u64 },
    /// The last request of the connection is refused. The library reads one of the guard.
    Refused(Malformed),
}

/// How far the library has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// All that it has.
    Done,
    /// The same, and the next byte begins a response.
    Begins,
    /// Something is left.
    Partly,
}

/// A request to change the protocol.
#[derive(Debug)]
enum Upgrade {
    /// There is no response yet. The waker is of the task that waits for it.
    Asked(Option<Waker>),
    Answered {
        is_granted: bool,
    },
}

/// The requests and responses on one connection.
#[derive(Debug)]
pub struct Exchange {
    activity: Activity,
    phase: Cell<Phase>,
    reading: Cell<Reading>,
    writing: Cell<Writing>,
    /// The number of the request that the service received last. The first one has number 1.
    request: Cell<u64>,
    /// Whether the next response is the last one.
    is_draining: Cell<bool>,
    look: Cell<Look>,
    /// The rest of the current body, if the service dropped it before it responded.
    abandoned: RefCell<Option<Incoming>>,
    upgrade: RefCell<Upgrade>,
}

impl Exchange {
    /// A connection in this phase, which is [`Phase::Opening`] or [`Phase::Idle`].
    pub fn new(activity: Activity, phase: Phase) -> Self {
        Self {
            activity,
            phase: Cell::new(phase),
            reading: Cell::new(Reading::Between),
            writing: Cell::new(Writing::Done),
            request: Cell::new(0),
            is_draining: Cell::new(false),
            look: Cell::new(Look::Untried),
            abandoned: RefCell::default(),
            upgrade: RefCell::new(Upgrade::Asked(None)),
        }
    }

    /// Since when nothing of the connection is in progress, and nothing is left to write.
    pub fn idle(&self) -> Option<Instant> {
        let is_idle = self.phase.get() == Phase::Idle
            && self.reading.get() == Reading::Awaited
            && self.activity.is_flushed();
        is_idle.then(|| self.activity.since())
    }

    /// Whether a request is active.
    fn is_busy(&self) -> bool {
        matches!(self.phase.get(), Phase::Serving { .. } | Phase::Responding { .. })
    }

    /// Whether a part of a response is missing that was begun.
    pub fn is_responding(&self) -> bool {
        matches!(self.phase.get(), Phase::Responding { .. }) || !self.is_written()
    }

    /// Whether the connection closes after the current response, or the last one that was.
    fn is_last(&self) -> bool {
        matches!(self.phase.get(), Phase::Responding { is_last: true } | Phase::Closing)
    }

    /// Whether the service has responded to the request that it received last.
    fn has_response(&self) -> bool {
        self.request.get() > 0 && !matches!(self.phase.get(), Phase::Serving { .. })
    }

    /// The next response is the last one.
    pub fn begin_drain(&self) {
        self.is_draining.set(true);
    }

    /// Whether the next response is the last one.
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Whether the client has announced that it sends no further request, if the library has
    /// ended the connection in order after a complete request. Then no response closes the
    /// connection, and there is no drain.
    pub fn is_closed_by_client(&self) -> bool {
        let is_closed_here = self.is_last() || self.refused().is_some() || self.is_draining.get();
        self.has_response() && self.is_body_complete() && !is_closed_here
    }
}

/// What the guard reads.
impl Exchange {
    /// A read of the library in front of a head waits for the client, or not.
    pub fn awaits_head(&self, is_awaited: bool) {
        // After a part of an empty line, the time for the head passes.
        if matches!(self.reading.get(), Reading::Between | Reading::Awaited) {
            self.reading.set(if is_awaited { Reading::Awaited } else { Reading::Between });
        }
    }

    /// A part of a head has arrived.
    pub fn head_begins(&self) {
        if !matches!(self.reading.get(), Reading::Head { .. }) {
            self.reading.set(Reading::Head { is_late: false });
            if matches!(self.phase.get(), Phase::Idle | Phase::Closing) {
                self.activity.restart();
            }
        }
    }

    /// The head of the request with this number has passed the guard. `left` bytes of its body
    /// have not. None: unknown, as with chunks.
    pub fn body_arrives(&self, request: u64, left: Option<u64>) {
        self.reading.set(Reading::Body { request, left: left.unwrap_or(u64::MAX) });
    }

    /// The last byte of a request has passed the guard.
    pub fn request_ends(&self) {
        self.reading.set(Reading::Between);
    }

    /// The last request of the connection is refused.
    pub fn refuse(&self, malformed: Malformed) {
        self.reading.set(Reading::Refused(malformed));
    }

    /// Why the last request of the connection is refused.
    pub fn refused(&self) -> Option<Malformed> {
        match self.reading.get() {
            Reading::Refused(malformed) => Some(malformed),
            _ => None,
        }
    }

    /// Whether the time for the current head is over.
    pub fn is_late(&self) -> bool {
        self.reading.get() == Reading::Head { is_late: true }
    }

    /// Whether the last byte of the current request has arrived.
    fn is_body_complete(&self) -> bool {
        let current = self.request.get();
        !matches!(self.reading.get(), Reading::Body { request, .. } if request <= current)
    }

    /// Whether a read would only show that the client leaves, or its next request, and it is too
    /// soon for that.
    ///
    /// The look would make a new connection wait for further bytes, which costs two calls of the
    /// system and a buffer. If the client opens a connection for each request, nothing comes.
    pub fn puts_off_read(&self) -> bool {
        let puts_off = self.look.get() != Look::Made && self.is_busy() && self.is_body_complete();
        if puts_off {
            self.look.set(Look::PutOff);
        }
        puts_off
    }

    /// A request asks to change the protocol.
    pub fn request_upgrade(&self) {
        *self.upgrade.borrow_mut() = Upgrade::Asked(None);
    }

    /// Whether the change was granted. None: there is no response yet, and `waker` is woken when
    /// there is.
    pub fn upgraded(&self, waker: Option<&Waker>) -> Option<bool> {
        match &mut *self.upgrade.borrow_mut() {
            Upgrade::Answered { is_granted } => Some(*is_granted),
            Upgrade::Asked(waiting) => {
                if let Some(waker) = waker {
                    *waiting = Some(waker.clone());
                }
                None
            }
        }
    }
}

/// What the service receives and answers.
impl Exchange {
    /// The service receives a request. `waits_with_body`: whether the client waits for
    /// "100 Continue".
    pub fn begin(self: &Rc<Self>, waits_with_body: impl FnOnce() -> bool) -> ActiveExchange {
        let request = self.request.get() + 1;
        self.request.set(request);
        let holds_body = !self.is_body_complete() && waits_with_body();
        self.phase.set(Phase::Serving { holds_body });
        if self.writing.get() == Writing::Begins {
            // The previous response is not written yet.
            self.writing.set(Writing::Partly);
        }
        let in_service = self.activity.enter_service();
        ActiveExchange { exchange: Rc::clone(self), request, in_service }
    }

    /// The service has responded. `is_last`: whether the connection then closes. If not,
    /// the rest of an abandoned body is read.
    pub fn respond(&self, is_last: bool) {
        self.phase.set(Phase::Responding { is_last });
        if self.writing.get() == Writing::Done {
            self.writing.set(Writing::Begins);
        }
        if let Some(body) = self.abandoned.take() {
            self.discard(body);
        }
    }

    /// The request with this number has ended.
    fn end(&self, request: u64) {
        if request != self.request.get() || !self.is_busy() {
            return;
        }
        if self.look.get() == Look::PutOff {
            self.look.set(Look::Due);
        }
        self.phase.set(if self.is_last() { Phase::Closing } else { Phase::Idle });
        self.activity.restart();
    }

    /// The response to a request to change the protocol grants the change, or not.
    pub fn answer_upgrade(&self, is_granted: bool) {
        let before = self.upgrade.replace(Upgrade::Answered { is_granted });
        if let Upgrade::Asked(Some(waker)) = before {
            waker.wake();
        }
    }

    /// The number of the request that the service received last.
    pub fn request(&self) -> u64 {
        self.request.get()
    }

    /// The service reads the body of this request.
    pub fn reads_body(&self, request: u64) {
        if request == self.request.get() && matches!(self.phase.get(), Phase::Serving { .. }) {
            self.phase.set(Phase::Serving { holds_body: false });
        }
    }

    /// The service drops the rest of the body of this request. It is still read if the
    /// connection stays open, which the response decides.
    pub fn abandon_body(&self, request: u64, rest: Incoming) {
        if request != self.request.get() {
            return;
        }
        if self.has_response() {
            self.discard(rest);
        } else {
            self.abandoned.replace(Some(rest));
        }
    }

    /// Reads the rest of a body, unless the connection closes. If the rest does not arrive,
    /// the connection is closed as an idle one.
    fn discard(&self, mut rest: Incoming) {
        if !self.is_last() {
            spawn_local(async move { while let Some(Ok(_)) = rest.frame().await {} });
        }
    }

    /// Whether the body of the request that the service has can be read to its end, even if the
    /// service does not read it. If not, the connection closes after the response.
    pub fn can_read_body(&self) -> bool {
        let Reading::Body { left, .. } = self.reading.get() else { return true };
        let is_held = self.phase.get() == Phase::Serving { holds_body: true };
        self.is_body_complete() || (!is_held && left <= MAX_DISCARDED_BYTES)
    }
}

/// What the library writes.
impl Exchange {
    /// The library writes something.
    pub fn on_write(&self) {
        self.writing.set(Writing::Partly);
    }

    /// The library has nothing left to write.
    pub fn on_flush(&self) {
        self.writing.set(Writing::Done);
    }

    /// Whether the library has written all that it has, so that the next byte that it writes
    /// begins a response.
    pub fn is_written(&self) -> bool {
        self.writing.get() == Writing::Done
    }

    /// Whether bytes written now stand between two responses.
    pub fn is_between_responses(&self) -> bool {
        match self.writing.get() {
            Writing::Done => !matches!(self.phase.get(), Phase::Responding { .. }),
            Writing::Begins => true,
            Writing::Partly => false,
        }
    }
}

impl Progress for Exchange {
    fn activity(&self) -> &Activity {
        &self.activity
    }

    fn is_overdue(&self, timeouts: &ListenerTimeouts) -> bool {
        let has_head = matches!(self.reading.get(), Reading::Head { .. });
        let is_late = match self.phase.get() {
            // The time begins when the client has taken the last response. Until then it has to read
            // fast enough.
            Phase::Idle | Phase::Closing if !self.is_written() => {
                self.activity.restart();
                false
            }
            Phase::Opening => self.activity.lasts(timeouts.request_head),
            Phase::Idle | Phase::Closing if has_head => self.activity.lasts(timeouts.request_head),
            Phase::Idle | Phase::Closing => self.activity.lasts(timeouts.keep_alive),
            Phase::Serving { .. } | Phase::Responding { .. } => false,
        };
        is_late || self.activity.is_slow()
    }

    fn is_reading_head(&self) -> bool {
        !self.is_busy() && matches!(self.reading.get(), Reading::Head { .. })
    }

    fn give_up_head(&self) -> bool {
        let gives_up = self.is_reading_head() && !self.is_late();
        if gives_up {
            self.reading.set(Reading::Head { is_late: true });
        }
        gives_up
    }

    fn look(&self) -> Look {
        self.look.get()
    }

    fn waits_to_read(&self) {
        self.look.set(Look::Made);
    }
}

/// A request of a connection, active until this is dropped.
#[derive(Debug)]
pub struct ActiveExchange {
    exchange: Rc<Exchange>,
    /// Its number.
    request: u64,
    in_service: InService,
}

impl ActiveRequest for ActiveExchange {
    fn is_answered(&mut self) {
        self.exchange.activity.leave_service(&mut self.in_service);
    }

    fn polled(&self, _: Option<usize>) {}
}

impl Drop for ActiveExchange {
    fn drop(&mut self) {
        self.exchange.end(self.request);
        self.is_answered();
    }
}
