//! Idle connections to one endpoint.
//!
//! The most recently used connection is used first. So the number of connections follows the
//! number of requests in progress at once: a connection that is not needed is not used, and is
//! closed after a time, which is short if there are many; see [`IdleBound`].
//!
//! Bytes behind a response would be taken for the next response. So a connection is used again
//! only if nothing has come on it since. The runtime knows what had come when it asked the system
//! last; a connection that is used again in the same turn has its socket asked. A connection rests
//! for a second if there is a reason to expect such bytes: the head of its response has announced a
//! body that the response must not have, or the endpoint has sent such bytes lately. What comes
//! later, or is on its way when the next request is written, cannot be told from a response.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use tollgate_core::time::monotonic;

use super::idle_bound::IdleBound;
use super::incoming::Behind;
use super::{Connection, Excess};
use crate::turn::Turn;

/// How long a connection rests. Bytes that come in this time are found.
pub const REST: Duration = Duration::from_secs(1);
/// Bytes that come so long after a response belong to it. A server may say later that it closes the
/// connection (a response with the status 408).
const OF_RESPONSE: Duration = Duration::from_secs(2);
/// The most connections that are closed at once because of their age: closing thousands would keep
/// requests waiting.
const CLOSED_AT_ONCE: usize = 256;
/// One call of [`Pool::close_expired`] looks at one of so many parts of the connections, or at all
/// of them if they are few. To look at thousands in each call would cost more than it is worth.
const PARTS: usize = 10;
const FEW: usize = 256;

/// Idle connections.
#[derive(Debug)]
pub struct Pool {
    bound: IdleBound,
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
    /// The calls of [`Pool::close_expired`].
    calls: usize,
}

#[derive(Debug)]
struct Idle {
    connection: Box<Connection>,
    since: Instant,
    turn: Turn,
}

impl Pool {
    pub fn new(bound: IdleBound, idle_timeout: Duration, excess: Excess) -> Self {
        Self { bound, idle_timeout, excess, connections: RefCell::default() }
    }

    /// An idle connection that is not known to be closed at `now`.
    pub fn reuse(&self, now: Instant) -> Option<Box<Connection>> {
        self.close_old(now);
        let connections = &mut *self.connections.borrow_mut();
        while let Some(mut idle) = connections.idle.pop_back() {
            // If it is too old, the others are, too.
            if idle.age(now) >= self.idle_timeout {
                return None;
            }
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
    pub fn keep(&self, mut connection: Box<Connection>) {
        if !connection.can_be_reused() {
            return;
        }
        let now = monotonic();
        self.close_old(now);
        let connections = &mut *self.connections.borrow_mut();
        while !self.bound.resize(connections.count() + 1) {
            let oldest = connections.idle.pop_front().or_else(|| connections.resting.pop_front());
            if oldest.is_none() {
                return;
            }
        }
        let rests = connection.may_be_followed || self.excess.is_suspected(now);
        let kept = Idle { connection, since: now, turn: Turn::current() };
        let Connections { idle, resting, .. } = connections;
        if rests { resting.push_back(kept) } else { idle.push_back(kept) }
    }

    /// Closes connections that have been idle for too long at `now`, and those that the endpoint
    /// has closed. If there are many, some of both are left to the next calls.
    pub fn close_expired(&self, now: Instant) {
        self.close_old(now);
        let connections = &mut *self.connections.borrow_mut();
        connections.calls = connections.calls.wrapping_add(1);
        for queue in [&mut connections.idle, &mut connections.resting] {
            let part = part(connections.calls, queue.len());
            let mut indices = 0..queue.len();
            let is_meant = |index| part.contains(&index);
            queue.retain_mut(|it| !indices.next().is_some_and(is_meant) || self.is_quiet(it, now));
        }
        self.bound.resize(connections.count());
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.connections.borrow().count()
    }

    /// Closes the connection that was not used for the longest time. Returns whether there was one.
    pub fn close_one(&self) -> bool {
        let connections = &mut *self.connections.borrow_mut();
        let Connections { idle, resting, .. } = connections;
        let closed = idle.pop_front().or_else(|| resting.pop_front());
        let is_closed = closed.is_some();
        drop(closed);
        self.bound.resize(connections.count());
        is_closed
    }

    /// Whether nothing has come on a connection, as far as the runtime knows. Bytes that belong to
    /// its last response are recorded.
    fn is_quiet(&self, idle: &mut Idle, now: Instant) -> bool {
        let behind = idle.connection.behind();
        if behind == Behind::Bytes && idle.age(now) < OF_RESPONSE {
            self.excess.found(now);
        }
        behind == Behind::Nothing
    }

    /// Closes connections that have been idle for too long at `now`, but not all at once. Those that
    /// have rested can be used again.
    fn close_old(&self, now: Instant) {
        let connections = &mut *self.connections.borrow_mut();
        while connections.resting.front().is_some_and(|it| it.age(now) >= REST) {
            let rested = connections.resting.pop_front();
            connections.idle.extend(rested.filter(|it| it.age(now) < self.idle_timeout));
        }
        for _ in 0..CLOSED_AT_ONCE {
            let surplus = self.bound.surplus_timeout(connections.count());
            let timeout = surplus.unwrap_or(self.idle_timeout).min(self.idle_timeout);
            if connections.idle.front().is_none_or(|it| it.age(now) < timeout) {
                break;
            }
            connections.idle.pop_front();
        }
    }
}

/// The part of `count` connections at which this call of [`Pool::close_expired`] looks.
fn part(call: usize, count: usize) -> Range<usize> {
    let length = (count / PARTS).max(FEW);
    let start = call % count.div_ceil(length).max(1) * length;
    start..start + length
}

impl Connections {
    fn count(&self) -> usize {
        self.idle.len() + self.resting.len()
    }
}

impl Idle {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_calls_look_at_all_connections() {
        for count in [0, 1, FEW, FEW + 1, 4096, 16_640] {
            let mut seen = vec![0; count];
            let calls = PARTS + 1;
            for call in 7..7 + calls {
                part(call, count).filter(|it| *it < count).for_each(|it| seen[it] += 1);
            }
            assert!(seen.iter().all(|times| *times >= 1), "{count}");
            assert!(part(7, count).len() <= FEW.max(count / PARTS), "{count}");
        }
    }
}
