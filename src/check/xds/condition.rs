//! How the stream is, as metrics and the status tell it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tollgate_core::time::monotonic;

/// How the stream to a server is. The task that keeps the stream changes it.
#[derive(Debug)]
pub struct Condition {
    /// The address of the server.
    server: String,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_connected: bool,
    taken_at: Option<Instant>,
    was_last_taken: Option<bool>,
    taken: u64,
    rejected: u64,
}

/// What is known of a stream at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether there is a connection on which the server has answered.
    pub is_connected: bool,
    /// The time since the last response that was taken. None: there was none.
    pub age: Option<Duration>,
    /// Whether the last response was taken. None: there was none.
    pub was_last_taken: Option<bool>,
    /// How many responses were taken.
    pub taken: u64,
    /// How many responses were rejected.
    pub rejected: u64,
}

impl Condition {
    /// Of a server to which there is no connection yet.
    pub fn new(server: String) -> Self {
        Self { server, state: Mutex::default() }
    }

    /// The address of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// There is a connection now, or none.
    pub fn set_connected(&self, is_connected: bool) {
        self.state.lock().is_connected = is_connected;
    }

    /// A response was taken.
    pub fn taken(&self) {
        let mut state = self.state.lock();
        state.taken_at = Some(monotonic());
        state.was_last_taken = Some(true);
        state.taken += 1;
    }

    /// A response was rejected.
    pub fn rejected(&self) {
        let mut state = self.state.lock();
        state.was_last_taken = Some(false);
        state.rejected += 1;
    }

    /// What is known now.
    pub fn seen(&self) -> Seen {
        let State { is_connected, taken_at, was_last_taken, taken, rejected } = *self.state.lock();
        let age = taken_at.map(|at| monotonic().saturating_duration_since(at));
        Seen { is_connected, age, was_last_taken, taken, rejected }
    }
}
