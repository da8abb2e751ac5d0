//! Idle connections to one endpoint.
//!
//! The most recently used connection is used first. So the number of connections follows the
//! number of requests in progress at once: a connection that is not needed is not used, and is
//! closed after a time.
//!
//! Bytes behind a response would be taken for the next response. So a connection is used again
//! only if nothing has come on it since. The runtime knows what had come when it asked the system
//! last; a connection that is used again in the same turn has its socket asked. A connection rests
//! for a second if there is a reason to expect such bytes: the head of its response has announced a
//! body that the response must not have, or the endpoint has sent such bytes lately. What comes
//! later, or is on its way when the next request is written, cannot be told from a response.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tollgate_limiter::time::monotonic;

use super::incoming::Behind;
use super::{Connection, Excess};
use crate::turn::Turn;

/// How long a connection rests. Bytes that come in this time are found.
pub(super) const REST: Duration = Duration::from_secs(1);
/// Bytes that come so long after a response belong to it. A server may say later that it closes the
/// connection (a response with the status 408).
const OF_RESPONSE: Duration = Duration::from_secs(2);

/// Idle connections.
#[derive(Debug)]
pub(in crate::proxy::endpoint) struct Pool {
    max_idle: usize,
    idle_timeout: Duration,
    excess: Excess,
    connections: RefCell<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    /// The most recently used is last: it is the least likely to be closed.
    idle: VecDeque<Idle>,
    /// Those that rest. The one that has rested longest is first.
    resting: VecDeque<Idle>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
    turn: Turn,
}

impl Pool {
    pub(in crate::proxy::endpoint) fn new(
        max_idle: usize,
        idle_timeout: Duration,
        excess: Excess,
    ) -> Self {
        Self { max_idle, idle_timeout, excess, connections: RefCell::default() }
    }

    /// An idle connection that is not known to be closed at `now`.
    pub(in crate::proxy::endpoint) fn reuse(&self, now: Instant) -> Option<Connection> {
        self.close_old(now);
        let connections = &mut *self.connections.borrow_mut();
        while let Some(mut idle) = connections.idle.pop_back() {
            if !self.is_quiet(&mut idle, now) {
                continue;
            }
            if idle.turn != Turn::current() || idle.connection.is_socket_empty() {
                return Some(idle.connection);
            }
            // The runtime will know whether that is the end, a message of TLS, or excess.
            connections.resting.push_back(idle);
        }
        None
    }

    /// Keeps a connection for another request, if it can carry one.
    pub(in crate::proxy::endpoint) fn keep(&self, mut connection: Connection) {
        if self.max_idle == 0 || !connection.can_be_reused() {
            return;
        }
        let now = monotonic();
        self.close_old(now);
        let connections = &mut *self.connections.borrow_mut();
        let Connections { idle, resting } = connections;
        if idle.len() + resting.len() >= self.max_idle && idle.pop_front().is_none() {
            resting.pop_front();
        }
        let rests = connection.may_be_followed || self.excess.is_suspected(now);
        let kept = Idle { connection, since: now, turn: Turn::current() };
        if rests { resting.push_back(kept) } else { idle.push_back(kept) }
    }

    /// Closes connections that have been idle for too long at `now`, and those that the
    /// endpoint has closed.
    pub(in crate::proxy::endpoint) fn close_expired(&self, now: Instant) {
        self.close_old(now);
        let Connections { idle, resting } = &mut *self.connections.borrow_mut();
        idle.retain_mut(|idle| self.is_quiet(idle, now));
        resting.retain_mut(|idle| self.is_quiet(idle, now));
    }

    /// The number of connections.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        let connections = self.connections.borrow();
        connections.idle.len() + connections.resting.len()
    }

    /// Whether nothing has come on a connection, as far as the runtime knows. Bytes that belong to
    /// its last response are recorded.
    fn is_quiet(&self, idle: &mut Idle, now: Instant) -> bool {
        let behind = idle.connection.behind();
        if behind == Behind::Bytes && now.saturating_duration_since(idle.since) < OF_RESPONSE {
            self.excess.found(now);
        }
        behind == Behind::Nothing
    }

    /// Closes connections that have been idle for too long at `now`. Those that have rested can be
    /// used again.
    fn close_old(&self, now: Instant) {
        let Connections { idle, resting } = &mut *self.connections.borrow_mut();
        let age = |it: &Idle| now.saturating_duration_since(it.since);
        while resting.front().is_some_and(|it| age(it) >= REST) {
            idle.extend(resting.pop_front().filter(|it| age(it) < self.idle_timeout));
        }
        while idle.front().is_some_and(|it| age(it) >= self.idle_timeout) {
            idle.pop_front();
        }
    }
}
