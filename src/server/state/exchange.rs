//! The progress of requests and responses on an HTTP/1 connection, shared by the guard in
//! front of the HTTP library and the service behind it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::spawn_local;
use tollgate_core::request::Malformed;

use super::activity::Activity;

/// How many unread bytes of a body are read and discarded to keep a connection, because a
/// new connection would cost more.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024;

/// The progress of the requests and responses on one connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    activity: Rc<Activity>,
    /// Why the last request was refused; then the library reads one of the guard.
    refused: Cell<Option<Malformed>>,
    /// Whether the library waits for the next request, and nothing of it has arrived.
    is_awaited: Cell<bool>,
    /// Whether the current request has a response.
    has_response: Cell<bool>,
    /// Whether everything was written, and no response has begun since.
    is_between_responses: Cell<bool>,
    /// Whether the library has written all that it has.
    is_written: Cell<bool>,
    /// How many requests the service has received, and how many have passed the guard
    /// with the last byte of their bodies.
    begun: Cell<u64>,
    passed: Cell<u64>,
    /// How many bytes of the current body have not passed the guard.
    body_left: Cell<u64>,
    /// Whether the client waits for "100 Continue" before it sends the current body, and
    /// has not received it.
    body_waits: Cell<bool>,
    /// The rest of the current body, if the service dropped it before it responded.
    abandoned: RefCell<Option<Incoming>>,
    /// Whether the connection closes after the current response.
    is_last: Cell<bool>,
    /// Whether a request to change the protocol was granted. None: no response yet.
    upgraded: Cell<Option<bool>>,
    upgrade_waker: RefCell<Option<Waker>>,
}

impl Exchange {
    pub(crate) fn new(activity: Rc<Activity>) -> Self {
        Self {
            activity,
            refused: Cell::new(None),
            is_awaited: Cell::new(false),
            has_response: Cell::new(false),
            is_between_responses: Cell::new(true),
            is_written: Cell::new(true),
            begun: Cell::new(0),
            passed: Cell::new(0),
            body_left: Cell::new(0),
            body_waits: Cell::new(false),
            abandoned: RefCell::default(),
            is_last: Cell::new(false),
            upgraded: Cell::new(None),
            upgrade_waker: RefCell::default(),
        }
    }

    /// The activity of the connection.
    pub(crate) fn activity(&self) -> &Rc<Activity> {
        &self.activity
    }

    /// The last request of the connection is refused.
    pub(crate) fn refuse(&self, malformed: Malformed) {
        self.refused.set(Some(malformed));
    }

    pub(crate) fn refused(&self) -> Option<Malformed> {
        self.refused.get()
    }

    /// Whether the library waits for the next request now, and nothing of it has arrived.
    pub(crate) fn set_awaited(&self, is_awaited: bool) {
        self.is_awaited.set(is_awaited);
    }

    /// Since when nothing of the connection is in progress.
    pub(crate) fn idle(&self) -> Option<Instant> {
        self.activity.idle().filter(|_| self.is_awaited.get() && self.is_body_complete())
    }

    /// Whether a read would only show that the client leaves, or its next request, and it is too
    /// soon for that.
    pub(crate) fn puts_off_read(&self) -> bool {
        self.activity.is_busy() && self.is_body_complete() && self.activity.puts_off_look()
    }

    /// A request asks to change the protocol.
    pub(crate) fn request_upgrade(&self) {
        self.upgraded.set(None);
    }

    /// The response to that request grants the change, or not.
    pub(crate) fn answer_upgrade(&self, granted: bool) {
        self.upgraded.set(Some(granted));
        let waker = self.upgrade_waker.borrow_mut().take();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    pub(crate) fn upgraded(&self) -> Option<bool> {
        self.upgraded.get()
    }

    /// Wakes `waker` when the response is known.
    pub(crate) fn wake_on_upgrade(&self, waker: &Waker) {
        *self.upgrade_waker.borrow_mut() = Some(waker.clone());
    }

    /// The service receives a request. `waits_with_body`: whether the client waits for
    /// "100 Continue".
    pub(crate) fn begin(&self, waits_with_body: impl FnOnce() -> bool) {
        self.has_response.set(false);
        self.begun.set(self.begun.get() + 1);
        self.body_waits.set(!self.is_body_complete() && waits_with_body());
        // A part of the previous response may not be written yet.
        self.is_between_responses.set(false);
    }

    /// The service has responded. `is_last`: whether the connection then closes. If not,
    /// the rest of an abandoned body is read.
    pub(crate) fn respond(&self, is_last: bool) {
        self.has_response.set(true);
        self.is_written.set(false);
        self.is_last.set(is_last);
        if let Some(body) = self.abandoned.take() {
            self.discard(body);
        }
    }

    /// Whether the client has announced that it sends no further request, if the library has
    /// ended the connection in order after a complete request. Then no response closes the
    /// connection, and there is no drain.
    pub(crate) fn is_closed_by_client(&self) -> bool {
        let is_closed_here =
            self.is_last.get() || self.refused.get().is_some() || self.activity.is_draining();
        self.has_response.get() && self.is_body_complete() && !is_closed_here
    }

    /// The number of the request that the service received last.
    pub(crate) fn request(&self) -> u64 {
        self.begun.get()
    }

    /// `left` bytes of the current body have not passed the guard. None: unknown, as with
    /// chunks.
    pub(crate) fn set_body_left(&self, left: Option<u64>) {
        self.body_left.set(left.unwrap_or(u64::MAX));
    }

    /// The last byte of a request has passed the guard.
    pub(crate) fn body_ends(&self) {
        self.passed.set(self.passed.get() + 1);
    }

    /// Whether the last byte of the current request has arrived.
    fn is_body_complete(&self) -> bool {
        self.passed.get() >= self.begun.get()
    }

    /// The service reads the body of this request.
    pub(crate) fn request_body(&self, request: u64) {
        if request == self.begun.get() {
            self.body_waits.set(false);
        }
    }

    /// The service drops the rest of the body of this request. It is still read if the
    /// connection stays open, which the response decides.
    pub(crate) fn abandon_body(&self, request: u64, rest: Incoming) {
        if request != self.begun.get() {
            return;
        }
        if self.has_response.get() {
            self.discard(rest);
        } else {
            self.abandoned.replace(Some(rest));
        }
    }

    /// Reads the rest of a body, unless the connection closes. If the rest does not arrive,
    /// the connection is closed as an idle one.
    fn discard(&self, mut rest: Incoming) {
        if !self.is_last.get() {
            spawn_local(async move { while let Some(Ok(_)) = rest.frame().await {} });
        }
    }

    /// Whether the current body can be read to its end, even if the service does not read
    /// it. If not, the connection closes after the response.
    pub(crate) fn can_read_body(&self) -> bool {
        let is_short = !self.body_waits.get() && self.body_left.get() <= MAX_DISCARDED_BYTES;
        is_short || self.is_body_complete()
    }

    /// The HTTP library writes something.
    pub(crate) fn on_write(&self) {
        self.is_written.set(false);
        self.is_between_responses.set(false);
    }

    /// The HTTP library has nothing left to write.
    pub(crate) fn on_flush(&self) {
        self.is_written.set(true);
        let is_responding = self.has_response.get() && self.activity.is_busy();
        self.is_between_responses.set(!is_responding);
    }

    /// Whether the library has written all that it has, so that the next byte that it writes
    /// begins a response.
    pub(crate) fn is_written(&self) -> bool {
        self.is_written.get()
    }

    /// Whether bytes written now stand between two responses.
    pub(crate) fn is_between_responses(&self) -> bool {
        self.is_between_responses.get()
    }
}
