//! Whose turn it is on a connection of HTTP/1: what the guard before the HTTP
//! library and the service behind it tell each other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use super::activity::Activity;
use crate::request::Malformed;

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

    /// The service has been given a request.
    pub(super) fn begin(&self) {
        self.is_answered.set(false);
        // Of the response before it something may be unwritten.
        self.is_between_responses.set(false);
    }

    /// The service has answered.
    pub(super) fn answer(&self) {
        self.is_answered.set(true);
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
