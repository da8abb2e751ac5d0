//! The connection of one worker to one server, on which no request ever waits
//! longer than the timeout.
//!
//! Tasks of their own send the calls in batches, so that a caller that stops waiting does
//! not affect others. A call that may have been counted is not sent again, unless its caller
//! allows it ([`Repeat`]). A call that was certainly not counted (`NOSCRIPT`, or a connection
//! that was closed before) is sent again. The reconnect task connects; calls wait for it
//! until their deadline. While the breaker is open, calls fail at once.
//!
//! After the timeout of a batch its callers do not wait any more, but late replies are still
//! read (`delivery`).

mod call_errors;
mod delivery;
mod exchange;
mod reconnect;
mod renewal;
mod statistics;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use self::call_errors::CallErrors;
pub use self::statistics::Health;
use tollgate_core::in_time::{catch_up, in_time};
use tollgate_core::store::CallStatistics;
use tollgate_core::store::{Outage, OutageCause};
use tollgate_core::time::monotonic;

use super::batch::{Call, Queue, Repeat};
use super::connect::Target;
use super::deadline::{Deadlines, PendingReply, ReplySender};
use super::event::OnceEvent;
use super::failure::{Refusal, StoreError};
use super::live_settings::LiveSettings;
use super::outages::{Outages, ServerUse};
use super::script::Encoded;
use super::settings::RedisSettings;
use super::test_write::Found;
use super::throttle::Throttle;
use super::transport::AnyTransport;
use super::wire::Wire;
use crate::breaker::{Breaker, Change, Position};
use redis::Value;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep_until;
use tracing::warn;

/// A timer that is later than this shows that the process did not run.
const STANDSTILL: Duration = Duration::from_millis(10);

/// A connection to one server, or the attempts to connect.
#[derive(Debug)]
pub(super) struct Link {
    shared: Rc<Shared>,
    reconnect_task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    live: LiveSettings,
    timeout: Duration,
    /// The settings of the connection, which the server has accepted.
    accepted: RefCell<Option<Rc<RedisSettings>>>,
    /// Whether later settings are accepted too, and if not, why.
    renewal: RefCell<ServerUse>,
    transport: AnyTransport,
    target: Target,
    state: RefCell<State>,
    clock_offset_us: Cell<Option<i64>>,
    /// Wakes the reconnect task when the connection is lost.
    lost: Notify,
    /// Wakes tasks that wait for a connection when there is one, or when none will come soon.
    changed: Notify,
    /// Set when the link was connected for the first time, or the server is known to be away.
    settled: OnceEvent,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    deadlines: Deadlines,
    /// The number of the task that watches the deadlines.
    watch: u64,
    /// How often the log says that calls take too much memory.
    overload_warnings: Throttle,
    call_errors: CallErrors,
    breaker: Breaker,
    connection: Option<Connection>,
    connections: u64,
    answered: u64,
    failed: u64,
    calls: CallStatistics,
    /// The number of batches that wait for late replies.
    late: usize,
    /// Whether the server is used, and if not, why.
    server_use: ServerUse,
    /// What is known of the server. Slots are not used for a node of a known cluster, whose calls
    /// have one slot.
    found: Found,
    /// The slot of the last call that a server which should have all slots has redirected.
    redirected: Option<u16>,
}

/// One connection and its number: the failure of an old one does not concern its successor.
#[derive(Clone, Debug)]
struct Connection {
    wire: Wire,
    number: u64,
}

impl State {
    /// The next batch and its connection. None if the connection has closed: the calls wait
    /// until the reconnect task has opened another one.
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
    /// Begins to connect in the background. It must be called within a `LocalRuntime`.
    pub(super) fn new(
        settings: impl Into<LiveSettings>,
        transport: AnyTransport,
        target: Target,
        outages: &Outages,
    ) -> Self {
        let live = settings.into();
        let state = State {
            queue: Queue::default(),
            deadlines: Deadlines::default(),
            watch: 0,
            overload_warnings: Throttle::default(),
            call_errors: CallErrors::default(),
            breaker: Breaker::new(fastrand::Rng::new()),
            connection: None,
            connections: 0,
            answered: 0,
            failed: 0,
            calls: CallStatistics::default(),
            late: 0,
            server_use: outages.user(),
            found: Found::default(),
            redirected: None,
        };
        let shared = Rc::new(Shared {
            timeout: live.peek().timeout,
            live,
            accepted: RefCell::default(),
            renewal: RefCell::new(outages.of_renewals().user()),
            transport,
            target,
            state: RefCell::new(state),
            clock_offset_us: Cell::default(),
            lost: Notify::new(),
            changed: Notify::new(),
            settled: OnceEvent::default(),
        });
        let reconnect_task = spawn_local(Rc::clone(&shared).stay_connected());
        Self { shared, reconnect_task }
    }

    /// Calls the script. The call enters the queue before the reply is awaited, so calls are
    /// sent in the order in which they are made. Calls of one `group` may be sent together.
    /// `asking` tells a node of a cluster that another node has redirected the call. The
    /// reply or an error comes by the deadline.
    pub(super) fn call(
        &self,
        encoded: Encoded,
        repeat: Repeat,
        deadline: Instant,
        group: u16,
        asking: bool,
    ) -> PendingReply {
        let (answer, awaited) = ReplySender::new();
        let call = Call { encoded, group, asking, is_apart: false, repeat, answer };
        self.shared.enqueue(call, deadline, &awaited);
        awaited
    }

    /// Sends other commands than the script, outside of batches. Requests must not wait for
    /// it.
    ///
    /// # Errors
    /// If the server does not answer within the timeout.
    pub(super) async fn query(&self, commands: &redis::Pipeline) -> Result<Vec<Value>, StoreError> {
        let connection = self.shared.state.borrow().connection.clone();
        let mut connection = connection.ok_or(StoreError::Away)?;
        let answers = in_time(self.shared.timeout, connection.wire.send(commands)).await;
        answers.unwrap_or(Err(StoreError::Timeout)).map_err(|error| self.shared.understood(error))
    }

    /// The same for commands for which requests wait. It waits for a connection that is being
    /// opened. The breaker records the result, and while it is open nothing is sent.
    ///
    /// # Errors
    /// If the server does not answer within the timeout.
    pub(super) async fn look_up(
        &self,
        commands: &redis::Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let connected = in_time(self.shared.timeout, self.shared.connection_number());
        let number = connected.await.flatten().ok_or(StoreError::Away)?;
        let answers = self.query(commands).await;
        let outcome = match &answers {
            Ok(answers) => self.shared.refusal(answers).map_or(Ok(()), Err),
            Err(error) => Err(error.clone()),
        };
        self.shared.judge(outcome, number);
        answers
    }

    /// Returns when it is known whether the server can be reached.
    pub(super) async fn settled(&self) {
        self.shared.settled.wait().await;
    }

    /// Whether the server has slots, and all of them. Then the keys of one call must be in one
    /// slot.
    pub(super) fn has_slots(&self) -> bool {
        self.shared.state.borrow().found.has_slots
    }

    /// The time that scripts are given, in microseconds since 1970. 0 if they can ask for it.
    pub(super) fn given_time_us(&self) -> u64 {
        self.shared.state.borrow_mut().found.given_time_us()
    }

    /// The name of the server.
    pub(super) fn name(&self) -> String {
        self.shared.target.to_string()
    }

    /// The number of the connection, if there is one. Each new connection has another number.
    pub(super) fn connection(&self) -> Option<u64> {
        self.shared.state.borrow().connection.as_ref().map(|it| it.number)
    }

    /// Whether there is a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.shared.state.borrow().connection.is_some()
    }

    /// The position of its breaker.
    pub(super) fn position(&self) -> Position {
        self.shared.state.borrow().breaker.position()
    }

    /// Whether the breaker admits calls.
    pub(super) fn is_up(&self) -> bool {
        self.shared.state.borrow().breaker.admits()
    }

    /// A call about the counters at this key has failed, while the server decides others.
    pub(super) fn note_call_error(&self, error: &StoreError, key: &[u8]) {
        self.shared.note_call_error(error, key);
    }

    /// The clock of the server differs by so much.
    pub(super) fn note_clock(&self, offset_us: i64) {
        self.shared.clock_offset_us.set(Some(offset_us));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reconnect_task.abort();
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
            if !state.queue.push(call) {
                self.warn_of_overload(&mut state, now);
                return;
            }
            let needs_timer = state.deadlines.add(deadline, awaited);
            state.watch += u64::from(needs_timer);
            needs_timer.then_some(state.watch)
        };
        if let Some(watch) = watch {
            spawn_local(Rc::clone(self).watch_the_time(watch, now));
        }
        self.pump();
    }

    fn note_call_error(&self, error: &StoreError, key: &[u8]) {
        let error = self.outage(error);
        self.state.borrow_mut().call_errors.note(&error, key, monotonic());
    }

    /// Says, once a minute, that calls are not sent for want of memory.
    fn warn_of_overload(&self, state: &mut State, now: Instant) {
        if state.overload_warnings.passes(now) {
            warn!(
                server = %self.target,
                "questions to Redis take too much memory, and further ones are answered by 503: \
                 there are more requests than Redis or this worker can decide in time"
            );
        }
    }

    /// Ends calls at their deadlines, until no call is left. Replies that have arrived by then
    /// are read first, and calls that could not be sent because the process did not run get this
    /// time again. `now` is the time at which the first call was made; this task may have
    /// started later. The task ends when another `watch` begins, which happens if a call must
    /// end before its timer does.
    async fn watch_the_time(self: Rc<Self>, watch: u64, mut now: Instant) {
        let pass = |now| {
            let mut state = self.state.borrow_mut();
            if state.watch == watch { state.deadlines.pass(now) } else { None }
        };
        while let Some(next) = pass(now) {
            sleep_until(next.into()).await;
            now = monotonic();
            let late = now.saturating_duration_since(next);
            if late >= STANDSTILL {
                self.state.borrow_mut().deadlines.extend(now, late);
            }
            catch_up().await;
        }
    }

    /// The number of the connection, as soon as there is one. None if the server is known to
    /// be away.
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

    /// Starts a task that sends the next batch, if one may be sent. Without a connection the
    /// calls wait. The breaker opens if no connection comes in time.
    fn pump(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        if state.connection.is_some() && state.queue.needs_sender() {
            // The task runs after all tasks that are ready now, and sends their calls, too.
            // Boxed, because the runtime copies the future of a task several times.
            spawn_local(Box::pin(Rc::clone(self).deliver()));
        }
    }

    /// Updates the breaker with the result of a batch or a probe on a connection.
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
                if let Some(slot) = redirected_slot(error) {
                    state.redirected = slot;
                    state.breaker.refused(monotonic())
                } else if is_fatal(error) {
                    state.connection = None;
                    state.breaker.disconnected(monotonic())
                } else {
                    state.breaker.failed(monotonic())
                }
            }
        };
        self.conclude(&mut state, change, outcome.err());
    }

    /// Applies a change of the breaker.
    fn conclude(&self, state: &mut State, change: Option<Change>, error: Option<StoreError>) {
        if !state.breaker.admits() {
            state.connection = None;
            state.queue.fail_all(&StoreError::Away);
            self.changed.notify_waiters();
        }
        if state.connection.is_none() {
            self.lost.notify_one();
        }
        match (change, error) {
            (Some(Change::Closed), _) => state.server_use.resume(),
            (Some(Change::Opened), error) => {
                self.give_up(state, &error.unwrap_or(StoreError::Away));
            }
            (None, Some(error)) if state.server_use.is_given_up() => self.give_up(state, &error),
            (None, _) => {}
        }
    }

    /// Records what is known of the server.
    fn note(&self, state: &mut State, found: Found) {
        state.found = found;
        state.server_use.differs(&self.target, found.has_slots, found.time.is_some());
    }

    /// Records why the server is not used.
    fn give_up(&self, state: &mut State, error: &StoreError) {
        state.server_use.give_up(self.outage(error));
    }

    fn outage(&self, error: &StoreError) -> Outage {
        error.outage(self.target.to_string(), &self.live.peek())
    }

    /// Whether the server is a node of a cluster whose map is known.
    const fn is_in_cluster(&self) -> bool {
        matches!(self.target, Target::InCluster(..))
    }

    /// An error of the server at the other end.
    fn understood(&self, error: StoreError) -> StoreError {
        match self.is_in_cluster() {
            true => error,
            false => error.outside_of_cluster(),
        }
    }

    /// The error among these replies that concerns the server, and not one command only.
    fn refusal(&self, replies: &[Value]) -> Option<StoreError> {
        let errors = replies.iter().filter_map(|reply| match reply {
            Value::ServerError(error) => Some(redis::RedisError::from(error.clone()).into()),
            _ => None,
        });
        let is_of_slot = |error: &StoreError| self.is_in_cluster() && error.is_try_again();
        let mut errors = errors.map(|error| self.understood(error)).filter(|it| !is_of_slot(it));
        errors.find(StoreError::is_of_server)
    }
}

/// Whether the connection cannot be used any more after this error.
fn is_fatal(error: &StoreError) -> bool {
    match error {
        StoreError::Lost(_) | StoreError::InvalidReply(_) => true,
        // The server has become a replica. The sentinels or the name lead to the master.
        StoreError::Refused(refusal, _) => *refusal == Refusal::ReadOnly,
        StoreError::NotConnected(..)
        | StoreError::Away
        | StoreError::Overloaded
        | StoreError::NotSent
        | StoreError::Timeout => false,
    }
}

/// The slot, if it is known, of a call that was redirected by a server which should have all
/// slots. It then refuses some of the calls only, but always the same ones.
fn redirected_slot(error: &StoreError) -> Option<Option<u16>> {
    match error {
        StoreError::Refused(Refusal::Unusable(OutageCause::ClusterNode), said) => {
            Some(said.split_whitespace().nth(1).and_then(|slot| slot.parse().ok()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
