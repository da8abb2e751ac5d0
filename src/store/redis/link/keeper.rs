//! Keeps a link connected, so that no request ever has to: connects, watches
//! the connection while nobody uses it, and probes a server that is away.

use std::rc::Rc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::pin;
use tokio::time::{sleep, timeout};

use super::super::dial::{self, dial};
use super::super::failure::StoreError;
use super::{Connection, Shared};
use crate::time::monotonic;

/// How often an unused connection is tried, so that one that is only half open
/// is found out before somebody needs it.
const IDLE_PROBE: Duration = Duration::from_secs(1);

impl Shared {
    pub(super) async fn keep(self: Rc<Self>) {
        loop {
            self.pause().await;
            match self.connect().await {
                Ok(wire) => {
                    let connection = self.connected(wire);
                    self.settled.send_replace(true);
                    self.pump();
                    self.watch(connection).await;
                }
                Err(error) => {
                    self.unreachable(error);
                    let is_away = !self.state.borrow().breaker.admits();
                    if is_away {
                        self.settled.send_replace(true);
                    }
                }
            }
        }
    }

    async fn pause(&self) {
        let probe_at = self.state.borrow().breaker.probe_at();
        if let Some(probe_at) = probe_at {
            sleep(until(probe_at)).await;
        }
    }

    /// Connects. Those who call meanwhile wait for it, but not longer than for
    /// an answer.
    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let dial = timeout(dial::patience(&self.settings), self.dial());
        pin!(dial);
        if self.state.borrow().breaker.admits() {
            match timeout(self.settings.timeout, &mut dial).await {
                Ok(result) => return result.unwrap_or(Err(StoreError::Timeout)),
                Err(_) => self.unreachable(StoreError::Timeout),
            }
        }
        dial.await.unwrap_or(Err(StoreError::Timeout))
    }

    async fn dial(&self) -> Result<MultiplexedConnection, StoreError> {
        dial(&self.settings, self.script, &self.target).await
    }

    fn connected(&self, wire: MultiplexedConnection) -> Connection {
        let mut state = self.state.borrow_mut();
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
            self.news.explain(&self.target.to_string(), &error);
        }
    }

    /// Returns when the connection is no longer the link's.
    async fn watch(&self, mut connection: Connection) {
        while self.has(&connection) {
            let mut answered = self.state.borrow().answered;
            while timeout(IDLE_PROBE, self.lost.notified()).await.is_err() {
                let now_answered = self.state.borrow().answered;
                let idle = self.state.borrow().queue.is_idle() && now_answered == answered;
                answered = now_answered;
                if idle && let Err(error) = self.probe(&mut connection).await {
                    let why = StoreError::Lost(format!("a probe failed: {error}"));
                    self.judge(Err(why), connection.number);
                }
            }
        }
    }

    async fn probe(&self, connection: &mut Connection) -> Result<(), StoreError> {
        dial::ping(&mut connection.wire, self.settings.timeout).await
    }

    fn has(&self, connection: &Connection) -> bool {
        let state = self.state.borrow();
        state.connection.as_ref().is_some_and(|current| current.number == connection.number)
    }
}

fn until(at: Instant) -> Duration {
    at.saturating_duration_since(monotonic())
}
