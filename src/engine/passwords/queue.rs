//! The queue of passwords that are to be checked.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tollgate_core::digest::Principal;
use tollgate_core::passwords::{BcryptHash, Login};
use tollgate_core::time::Timestamp;

/// The most passwords that wait for their check.
pub const MAX_WAITING: usize = 64;

/// A password that could not be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// A password that is to be checked.
#[derive(Debug)]
pub struct Check {
    pub login: Login,
    pub hash: BcryptHash,
    /// The client's address.
    pub address: Principal,
    pub asked_at: Timestamp,
    pub answer: oneshot::Sender<bool>,
}

/// The passwords that wait for their check.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Check>,
    /// The address of the password that is being checked.
    checked: Option<Principal>,
    /// Whether there is a thread that takes checks.
    has_thread: bool,
    is_closed: bool,
}

impl Queue {
    /// Adds a check, if fewer than `allowed` of its address are here.
    pub fn add(&self, check: Check, allowed: u64) -> Result<(), Busy> {
        let mut state = self.state.lock();
        // A client that has left does not hold its place.
        state.waiting.retain(|it| !it.answer.is_closed());
        let addresses = state.waiting.iter().map(|it| it.address).chain(state.checked);
        let of_address = addresses.filter(|it| *it == check.address).count();
        let is_allowed = u64::try_from(of_address).is_ok_and(|count| count < allowed);
        if !is_allowed || state.waiting.len() >= MAX_WAITING {
            return Err(Busy);
        }
        state.waiting.push_back(check);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The number of checks that wait.
    pub fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// The check that was taken has its result.
    pub fn end_check(&self) {
        self.state.lock().checked = None;
    }

    /// No check follows.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Whether a thread takes checks. If none does, the caller starts one.
    pub fn replace_has_thread(&self, has_thread: bool) -> bool {
        std::mem::replace(&mut self.state.lock().has_thread, has_thread)
    }

    /// The next check whose client still waits. None: no check follows.
    pub fn next(&self) -> Option<Check> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            match state.waiting.pop_front() {
                Some(check) if check.answer.is_closed() => {}
                Some(check) => {
                    state.checked = Some(check.address);
                    return Some(check);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}
