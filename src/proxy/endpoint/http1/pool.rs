//! Idle connections to one endpoint.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tollgate_limiter::time::monotonic;

use super::Connection;

/// Idle connections.
#[derive(Debug)]
pub(in crate::proxy::endpoint) struct Pool {
    max_idle: usize,
    idle_timeout: Duration,
    /// The most recently used is last: it is the least likely to be closed.
    idle: RefCell<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(in crate::proxy::endpoint) fn new(max_idle: usize, idle_timeout: Duration) -> Self {
        Self { max_idle, idle_timeout, idle: RefCell::default() }
    }

    /// An idle connection that is not known to be closed at `now`.
    pub(in crate::proxy::endpoint) fn reuse(&self, now: Instant) -> Option<Connection> {
        self.close_old(now);
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { mut connection, .. }) = idle.pop_back() {
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for another request, if it can carry one.
    pub(in crate::proxy::endpoint) fn keep(&self, mut connection: Connection) {
        if !connection.can_be_reused() {
            return;
        }
        let since = monotonic();
        self.close_old(since);
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.max_idle {
            idle.pop_front();
        }
        if self.max_idle > 0 {
            idle.push_back(Idle { connection, since });
        }
    }

    /// Closes connections that have been idle for too long at `now`, and those that the
    /// endpoint has closed.
    pub(in crate::proxy::endpoint) fn close_expired(&self, now: Instant) {
        self.close_old(now);
        self.idle.borrow_mut().retain_mut(|idle| idle.connection.is_quiet());
    }

    /// The number of connections.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    fn close_old(&self, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        let is_old = |it: &Idle| now.saturating_duration_since(it.since) >= self.idle_timeout;
        while idle.front().is_some_and(is_old) {
            idle.pop_front();
        }
    }
}
