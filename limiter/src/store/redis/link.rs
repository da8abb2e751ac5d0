//! The connection of one worker to one server, on which no request ever waits
//! longer than the timeout.
//!
//! Calls are put into batches and carried by tasks of their own, so that a
//! caller that goes away disturbs no other. What may have been counted is not sent
//! again, unless its caller asked for that ([`Repeat`]); what surely was not
//! (`NOSCRIPT`, or a connection that was closed before) is. Connecting is the
//! keeper's job: calls wait for it within their time. While the breaker is open
//! calls fail at once.
//!
//! A batch that is not answered in time is no longer waited for, but its answers
//! are read when they come (`delivery`).

mod delivery;
mod exchange;
mod reconnect;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use super::batch::{Call, Queue, Repeat};
use super::connect::Target;
use super::deadline::{Deadlines, PendingReply, ReplySender};
use super::event::OnceEvent;
use super::failure::{Refusal, StoreError};
use super::outage_log::OutageLog;
use super::script::{Encoded, Script};
use super::settings::RedisSettings;
use super::wire::Wire;
use crate::store::breaker::{Breaker, Change, Position};
use crate::store::in_time::{catch_up, in_time};
use crate::time::monotonic;
use redis::Value;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep_until;

/// A connection to one server, or the attempt to have one.
#[derive(Debug)]
pub(super) struct Link {
    shared: Rc<Shared>,
    reconnect_task: JoinHandle<()>,
}

/// What a link has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The server.
    pub server: String,
    /// Whether it is used.
    pub position: Position,
    /// How often it was given up.
    pub times_opened: u64,
    /// Batches that were answered.
    pub answered: u64,
    /// Batches that were not.
    pub failed: u64,
}

#[derive(Debug)]
struct Shared {
    settings: Rc<RedisSettings>,
    script: &'static Script,
    target: Target,
    outage_log: OutageLog,
    state: RefCell<State>,
    /// Wakes the keeper when there is no connection any more.
    lost: Notify,
    /// Wakes those that wait for a connection when there is one, or none will come soon.
    changed: Notify,
    /// Whether it was ever connected, or known to be away.
    settled: OnceEvent,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    deadlines: Deadlines,
    /// The number of the task that watches them.
    watch: u64,
    breaker: Breaker,
    connection: Option<Connection>,
    connections: u64,
    answered: u64,
    failed: u64,
    /// Batches that were not answered in time, and may be yet.
    late: usize,
    /// The news say that the server is away.
    is_told: bool,
}

/// One connection, and which one it is: an old one's failure says nothing about its successor.
#[derive(Clone, Debug)]
struct Connection {
    wire: Wire,
    number: u64,
}

impl State {
    /// The next batch, and on what it goes. On a connection that has closed
    /// nothing goes: its calls wait for the next one, as the keeper makes it.
    fn next_batch(&mut self) -> Option<(Connection, Vec<Call>)> {
        let open = self.connection.as_ref().filter(|it| !it.wire.is_closed());
        let Some(connection) = open.cloned() else {
            self.queue.release_sender();
            return None;
        };
        Some((connection, self.queue.take()?))
    }
}

impl Link {
    /// Begins to connect, in the background. Must be called within a `LocalRuntime`.
    pub(super) fn new(
        settings: Rc<RedisSettings>,
        script: &'static Script,
        target: Target,
        outage_log: OutageLog,
    ) -> Self {
        let state = State {
            queue: Queue::default(),
            deadlines: Deadlines::default(),
            watch: 0,
            breaker: Breaker::new(fastrand::Rng::new()),
            connection: None,
            connections: 0,
            answered: 0,
            failed: 0,
            late: 0,
            is_told: false,
        };
        let shared = Rc::new(Shared {
            settings,
            script,
            target,
            outage_log,
            state: RefCell::new(state),
            lost: Notify::new(),
            changed: Notify::new(),
            settled: OnceEvent::default(),
        });
        let reconnect_task = spawn_local(Rc::clone(&shared).stay_connected());
        Self { shared, reconnect_task }
    }

    /// Asks the script. The call takes its place in the queue now, before it is
    /// awaited: calls are sent in the order in which they were made. Calls of
    /// one `group` may be asked together; `asking` tells a cluster's node that
    /// another one sent us. The answer comes by the deadline, or says what kept the
    /// server from answering.
    pub(super) fn call(
        &self,
        encoded: Encoded,
        (repeat, deadline): (Repeat, Instant),
        group: u16,
        asking: bool,
    ) -> PendingReply {
        let (answer, awaited) = ReplySender::new();
        let call = Call { encoded, group, asking, repeat, answer };
        self.shared.enqueue(call, deadline, &awaited);
        awaited
    }

    /// Asks something else than the script, beside the batches. Not for the
    /// path of a request.
    ///
    /// # Errors
    /// Whatever kept the server from answering, within the timeout.
    pub(super) async fn query(&self, commands: &redis::Pipeline) -> Result<Vec<Value>, StoreError> {
        let connection = self.shared.state.borrow().connection.clone();
        let mut connection = connection.ok_or(StoreError::Away)?;
        let answers = in_time(self.shared.settings.timeout, connection.wire.send(commands)).await;
        answers.unwrap_or(Err(StoreError::Timeout))
    }

    /// The same for requests that wait for it, also for a connection that is being
    /// made: what comes of it is told to the breaker, and while that is open
    /// nothing is sent.
    ///
    /// # Errors
    /// Whatever kept the server from answering, within the timeout.
    pub(super) async fn look_up(
        &self,
        commands: &redis::Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let connected = in_time(self.shared.settings.timeout, self.shared.connection_number());
        let number = connected.await.flatten().ok_or(StoreError::Away)?;
        let answers = self.query(commands).await;
        self.shared.judge(answers.as_ref().map(drop).map_err(Clone::clone), number);
        answers
    }

    /// Returns when it is known whether the server can be reached.
    pub(super) async fn settled(&self) {
        self.shared.settled.wait().await;
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.shared.state.borrow().connection.is_some()
    }

    /// Where its breaker stands.
    pub(super) fn position(&self) -> Position {
        self.shared.state.borrow().breaker.position()
    }

    /// Whether calls reach it.
    pub(super) fn is_up(&self) -> bool {
        self.shared.state.borrow().breaker.admits()
    }

    /// What it has seen.
    pub(super) fn health(&self) -> Health {
        let state = self.shared.state.borrow();
        Health {
            server: self.shared.target.to_string(),
            position: state.breaker.position(),
            times_opened: state.breaker.times_opened(),
            answered: state.answered,
            failed: state.failed,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reconnect_task.abort();
        if self.shared.state.borrow().is_told {
            self.shared.outage_log.forget(&self.shared.target.to_string());
        }
    }
}

impl Shared {
    fn enqueue(self: &Rc<Self>, call: Call, deadline: Instant, awaited: &PendingReply) {
        let now = monotonic();
        let watch = {
            let mut state = self.state.borrow_mut();
            if !state.breaker.admits() {
                return call.answer.send(Err(StoreError::Away));
            }
            if deadline <= now {
                return call.answer.send(Err(StoreError::NotSent));
            }
            state.queue.push(call);
            let is_first = state.deadlines.add(deadline, awaited);
            state.watch += u64::from(is_first);
            is_first.then_some(state.watch)
        };
        if let Some(watch) = watch {
            spawn_local(Rc::clone(self).watch_the_time(watch, now));
        }
        self.pump();
    }

    /// Lets no call wait for longer than it may, as long as there are any. What
    /// has been answered by then is read before. It is `now` where the first call
    /// was made: this task may have waited since. It ends when another `watch` has
    /// begun, because a call may wait less long than those before it.
    async fn watch_the_time(self: Rc<Self>, watch: u64, mut now: Instant) {
        let pass = |now| {
            let mut state = self.state.borrow_mut();
            if state.watch == watch { state.deadlines.pass(now) } else { None }
        };
        while let Some(next) = pass(now) {
            sleep_until(next.into()).await;
            now = monotonic();
            catch_up().await;
        }
    }

    /// Which connection there is, as soon as there is one; none if the server is
    /// known to be away.
    async fn connection_number(&self) -> Option<u64> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                if !state.breaker.admits() {
                    return None;
                }
                let open = state.connection.as_ref().filter(|it| !it.wire.is_closed());
                if let Some(connection) = open {
                    return Some(connection.number);
                }
            }
            changed.await;
        }
    }

    /// Sends what may be sent. Without a connection calls wait for it: the
    /// breaker opens when it does not come in time.
    fn pump(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        if state.connection.is_some() && state.queue.needs_sender() {
            // It runs after all that the worker has at hand now, and takes with
            // it what they ask.
            spawn_local(Rc::clone(self).deliver());
        }
    }

    /// Draws the conclusions from how a batch or a probe on a connection ended.
    fn judge(&self, outcome: Result<(), StoreError>, number: u64) {
        let mut state = self.state.borrow_mut();
        let current = state.connection.as_ref().is_some_and(|current| current.number == number);
        let change = match &outcome {
            Ok(()) => {
                state.answered += 1;
                state.breaker.succeeded()
            }
            Err(_) if !current => {
                state.failed += 1;
                return;
            }
            Err(error) => {
                state.failed += 1;
                if is_fatal(error) {
                    state.connection = None;
                    state.breaker.disconnected(monotonic())
                } else {
                    state.breaker.failed(monotonic())
                }
            }
        };
        self.conclude(&mut state, change, outcome.err());
    }

    /// After the breaker was told something.
    fn conclude(&self, state: &mut State, change: Option<Change>, error: Option<StoreError>) {
        if !state.breaker.admits() {
            state.connection = None;
            state.queue.fail_all(&StoreError::Away);
            self.changed.notify_waiters();
        }
        if state.connection.is_none() {
            self.lost.notify_one();
        }
        let server = || self.target.to_string();
        match change {
            Some(Change::Opened) => {
                state.is_told = true;
                self.outage_log.lost(&server(), error.as_ref());
            }
            Some(Change::Closed) => {
                state.is_told = false;
                self.outage_log.found(&server());
            }
            None => {}
        }
    }
}

/// Whether a connection is of no more use.
fn is_fatal(error: &StoreError) -> bool {
    match error {
        StoreError::Lost(_) | StoreError::InvalidReply(_) => true,
        // It has become a replica: the sentinels, or a name, lead to the master.
        StoreError::Refused(refusal, _) => *refusal == Refusal::ReadOnly,
        StoreError::Away | StoreError::Overloaded | StoreError::NotSent | StoreError::Timeout => {
            false
        }
    }
}

#[cfg(test)]
mod tests;
