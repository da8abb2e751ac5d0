//! Keeps a link connected, so that no request has to connect: connects, probes an idle
//! connection, and tries again while the server is away.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tokio::{pin, select};
use tollgate_core::in_time::in_time;
use tollgate_core::time::monotonic;

use super::super::connect::{self, Connected};
use super::super::failure::StoreError;
use super::{Connection, Shared};
use crate::breaker::Position;

/// How often an idle connection is probed, so that a half-open connection is found
/// before a request needs it.
const IDLE_PROBE: Duration = Duration::from_secs(1);
/// The same for a server that is back, and that no decision was asked of yet. Until then, the log
/// and the status say that it is away.
const BACK_PROBE: Duration = Duration::from_millis(100);
/// The shortest time between two attempts to connect. A server that closes each new
/// connection at once must not keep a worker busy.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);

impl Shared {
    pub(super) async fn stay_connected(self: Rc<Self>) {
        let mut next = monotonic();
        loop {
            self.pause(next).await;
            next = monotonic() + SHORTEST_ROUND;
            match self.connect().await {
                Ok(connected) => {
                    let mut next = Some(connected);
                    while let Some(connected) = next {
                        let connection = self.connected(connected);
                        self.settled.set();
                        self.changed.notify_waiters();
                        self.pump();
                        next = self.watch(&connection).await;
                    }
                }
                Err(error) => {
                    self.unreachable(error);
                    let is_away = !self.state.borrow().breaker.admits();
                    if is_away {
                        self.settled.set();
                    }
                }
            }
        }
    }

    /// Returns at `next`, or when a server that is away may be tried.
    async fn pause(&self, next: Instant) {
        let probe_at = self.state.borrow().breaker.probe_at();
        let next = probe_at.map_or(next, |at| at.max(next));
        let pause = next.saturating_duration_since(monotonic());
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    /// Connects. Calls that are made meanwhile wait for the connection, but no longer than
    /// for an answer. A call that is made just before the timeout may still wait, so the
    /// server counts as away only after twice that time.
    async fn connect(&self) -> Result<Connected, StoreError> {
        let limit = connect::handshake_timeout(&self.live.peek());
        let handshake = timeout(limit, self.handshake());
        pin!(handshake);
        if self.state.borrow().breaker.admits() {
            match in_time(self.timeout * 2, &mut handshake).await {
                Some(result) => return result.unwrap_or(Err(StoreError::Timeout)),
                None => self.unreachable(StoreError::Timeout),
            }
        }
        handshake.await.unwrap_or(Err(StoreError::Timeout))
    }

    fn connected(&self, Connected { wire, found }: Connected) -> Connection {
        let mut state = self.state.borrow_mut();
        self.note(&mut state, found);
        state.connections += 1;
        let connection = Connection { wire, number: state.connections };
        state.connection = Some(connection.clone());
        state.breaker.probed(true, monotonic());
        connection
    }

    fn unreachable(&self, error: StoreError) {
        let mut state = self.state.borrow_mut();
        let now = monotonic();
        if state.breaker.admits() {
            let change = state.breaker.failed(now);
            self.conclude(&mut state, change, Some(error));
        } else {
            state.breaker.probed(false, now);
            self.give_up(&mut state, &error);
        }
    }

    /// Returns when the connection is no longer the link's, or has a successor, which is
    /// returned.
    async fn watch(&self, connection: &Connection) -> Option<Connected> {
        select! {
            biased;
            () = connection.wire.closed() => {
                self.closed(connection);
                None
            }
            () = self.probe_while_idle(connection) => None,
            successor = self.successor(connection) => Some(successor),
        }
    }

    /// The server has closed a connection. Had it closed it under calls, these
    /// would have said so before.
    fn closed(&self, connection: &Connection) {
        if self.has(connection) {
            let mut state = self.state.borrow_mut();
            state.connection = None;
            state.breaker.closed_while_idle();
        }
    }

    /// Returns when the connection is no longer the link's.
    async fn probe_while_idle(&self, connection: &Connection) {
        let mut wire = connection.wire.clone();
        while self.has(connection) {
            let mut answered = self.state.borrow().answered;
            while timeout(self.idle_pause(), self.lost.notified()).await.is_err() {
                let now_answered = self.state.borrow().answered;
                let idle = self.state.borrow().queue.is_idle() && now_answered == answered;
                answered = now_answered;
                if !idle {
                    continue;
                }
                match connect::ping(&mut wire, self.timeout).await {
                    Ok(()) => self.answered_while_idle(connection),
                    Err(error) => self.silent_while_idle(connection, error),
                }
            }
        }
    }

    fn idle_pause(&self) -> Duration {
        match self.state.borrow().breaker.position() {
            Position::HalfOpen => BACK_PROBE,
            Position::Closed | Position::Open => IDLE_PROBE,
        }
    }

    /// A server that has let this gateway write on a new connection, and that answers while no
    /// decision is asked for, is used again.
    fn answered_while_idle(&self, connection: &Connection) {
        if self.has(connection) {
            let mut state = self.state.borrow_mut();
            if state.breaker.position() == Position::HalfOpen {
                let change = state.breaker.succeeded();
                self.conclude(&mut state, change, None);
            }
        }
    }

    /// A probe failed: calls must not use this connection any more.
    fn silent_while_idle(&self, connection: &Connection, error: StoreError) {
        if self.has(connection) {
            let mut state = self.state.borrow_mut();
            state.failed += 1;
            state.connection = None;
            let change = state.breaker.disconnected(monotonic());
            self.conclude(&mut state, change, Some(error));
        }
    }

    fn has(&self, connection: &Connection) -> bool {
        let state = self.state.borrow();
        state.connection.as_ref().is_some_and(|current| current.number == connection.number)
    }
}
