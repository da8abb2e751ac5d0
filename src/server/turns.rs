//! Whose turn it is on a connection of HTTP/1: what the guard before the HTTP
//! library and the service behind it tell each other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::spawn_local;

use super::activity::Activity;
use crate::request::Malformed;

/// Bytes of a body that are read though they are not wanted any more, because a
/// new connection would cost more.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024;

/// Whose turn it is on one connection, as all who take part see it.
#[derive(Debug)]
pub(super) struct Turns {
    activity: Rc<Activity>,
    /// Why the last request of the connection is not the client's own.
    refused: Cell<Option<Malformed>>,
    /// Whether the request under way has an answer.
    is_answered: Cell<bool>,
    /// Whether all has been written and no response has begun since.
    is_between_responses: Cell<bool>,
    /// How many requests the service has been given, and how many have passed the
    /// guard to the last byte of their bodies.
    begun: Cell<u64>,
    passed: Cell<u64>,
    /// Of the body that is passing: how many bytes are still to come.
    body_left: Cell<u64>,
    /// The client sends the body of the request under way only when it is asked to,
    /// which has not happened.
    body_waits: Cell<bool>,
    /// The body of the request under way, if the service does not want its rest and
    /// has not answered yet.
    abandoned: RefCell<Option<Incoming>>,
    /// Whether the connection ends with the answer that has been given.
    is_last: Cell<bool>,
    /// Whether a request to change the protocol has been granted; none: not answered.
    upgraded: Cell<Option<bool>>,
    upgrade_waker: RefCell<Option<Waker>>,
}

impl Turns {
    pub(super) fn new(activity: Rc<Activity>) -> Self {
        Self {
            activity,
            refused: Cell::new(None),
            is_answered: Cell::new(false),
            is_between_responses: Cell::new(true),
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

    /// What the connection is doing.
    pub(super) fn activity(&self) -> &Rc<Activity> {
        &self.activity
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

    /// The service has been given a request, whose client may wait with the body
    /// until it is asked for it.
    pub(super) fn begin(&self, waits_with_body: impl FnOnce() -> bool) {
        self.is_answered.set(false);
        self.begun.set(self.begun.get() + 1);
        self.body_waits.set(!self.is_body_whole() && waits_with_body());
        // Of the response before it something may be unwritten.
        self.is_between_responses.set(false);
    }

    /// The service has answered, and maybe the connection ends with that. What is
    /// left of an abandoned body is read if it does not.
    pub(super) fn answer(&self, is_last: bool) {
        self.is_answered.set(true);
        self.is_last.set(is_last);
        if let Some(body) = self.abandoned.take() {
            self.discard(body);
        }
    }

    /// The number of the request that the service was given last.
    pub(super) fn request(&self) -> u64 {
        self.begun.get()
    }

    /// So many bytes of the body that passes the guard are still to come; of chunks
    /// it is not known how many.
    pub(super) fn body_goes_on(&self, left: Option<u64>) {
        self.body_left.set(left.unwrap_or(u64::MAX));
    }

    /// The last byte of a request has passed the guard.
    pub(super) fn body_has_passed(&self) {
        self.passed.set(self.passed.get() + 1);
    }

    /// Whether the last byte of the request under way has come.
    fn is_body_whole(&self) -> bool {
        self.passed.get() >= self.begun.get()
    }

    /// The service waits for the body of this request.
    pub(super) fn ask_for_body(&self, request: u64) {
        if request == self.begun.get() {
            self.body_waits.set(false);
        }
    }

    /// The service does not want the rest of the body of this request. It is read
    /// all the same if the connection goes on, which the answer decides.
    pub(super) fn abandon_body(&self, request: u64, rest: Incoming) {
        if request != self.begun.get() {
            return;
        }
        if self.is_answered.get() {
            self.discard(rest);
        } else {
            self.abandoned.replace(Some(rest));
        }
    }

    /// Reads the rest of a body, unless the connection ends. If it does not come,
    /// the connection is idle and ends as such.
    fn discard(&self, mut rest: Incoming) {
        if !self.is_last.get() {
            spawn_local(async move { while let Some(Ok(_)) = rest.frame().await {} });
        }
    }

    /// Whether the body of the request under way can be read to its end, whether
    /// or not the service wants it. If not, the connection ends with the answer.
    pub(super) fn can_read_body(&self) -> bool {
        let is_short = !self.body_waits.get() && self.body_left.get() <= MAX_DISCARDED_BYTES;
        is_short || self.is_body_whole()
    }

    /// The HTTP library writes something.
    pub(super) fn writes(&self) {
        self.is_between_responses.set(false);
    }

    /// It has nothing left to write.
    pub(super) fn has_written(&self) {
        let is_responding = self.is_answered.get() && self.activity.is_busy();
        self.is_between_responses.set(!is_responding);
    }

    /// Whether what is written now stands before the next response.
    pub(super) fn is_between_responses(&self) -> bool {
        self.is_between_responses.get()
    }
}
