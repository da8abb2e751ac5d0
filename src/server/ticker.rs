//! Wakes the connections of a listener on one worker: from time to time, so that they check
//! their time limits, and when a drain proceeds.
//!
//! A timer and a watched signal for each connection would cost more than the decision about
//! its request. So one task wakes all connections of the listener. It divides a period into
//! steps and wakes a part of the connections in each, so that they do not all run at once.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::pending;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tollgate_core::drain::Drain;

/// The most steps of a period.
const MAX_STEPS: u32 = 16;
/// The shortest step, unless the period is shorter.
const MIN_STEP: Duration = Duration::from_millis(10);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// How long an idle HTTP/1 connection stays open once a drain has begun.
///
/// If an idle connection were closed at once, a client that is just sending its next request
/// would get an error. Instead the request is answered, and the response says that the connection
/// closes.
const IDLE_DRAIN: Duration = Duration::from_secs(1);

/// Returns when a drain closes idle connections.
pub async fn idle_drain(drain: &mut Drain) {
    drain.requested().await;
    sleep(IDLE_DRAIN).await;
}

/// The ticks and the drain of the connections of a listener on one worker. Its task, and with it
/// its [`Drain`], ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Ticker(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Rc<State>,
    /// Never sent: the task sees that this was dropped.
    _handles: oneshot::Sender<Infallible>,
}

#[derive(Debug)]
struct State {
    /// How many steps have passed.
    step: Cell<usize>,
    /// The tasks to wake at each step of a period. The first step of a period has a number that
    /// can be divided by the number of steps.
    due: Box<[RefCell<Slab<Waker>>]>,
    /// How many looks there were, and the tasks that wait for the next one.
    looks: Cell<usize>,
    waiting: RefCell<Slab<Waker>>,
    is_draining: Cell<bool>,
    closes_idle: Cell<bool>,
    is_over: Cell<bool>,
}

impl Ticker {
    /// Ticks once in each `period`. Must run on a worker's local runtime.
    pub fn new(period: Duration, drain: Drain) -> Self {
        let steps = steps_of(period);
        let state = Rc::new(State::new(steps, drain.is_requested()));
        let (handles, dropped) = oneshot::channel();
        spawn_local(run(Rc::clone(&state), period / steps, drain, dropped));
        Self(Rc::new(Shared { state, _handles: handles }))
    }

    /// The ticks of one connection. The first one comes after a period, or up to a step sooner.
    pub fn ticks(&self) -> Ticks {
        let state = &self.0.state;
        let next = state.step.get() + state.due.len();
        Ticks { ticker: self.clone(), next, slot: None, look: None }
    }

    /// Whether a drain has begun: each response is the last one of its connection.
    pub fn is_draining(&self) -> bool {
        self.0.state.is_draining.get()
    }

    /// Whether the drain closes idle connections.
    pub fn closes_idle(&self) -> bool {
        self.0.state.closes_idle.get()
    }

    /// Whether the time of the drain is over.
    pub fn is_over(&self) -> bool {
        self.0.state.is_over.get()
    }
}

/// How many steps a period has.
fn steps_of(period: Duration) -> u32 {
    let steps = period.as_nanos() / MIN_STEP.as_nanos();
    u32::try_from(steps).unwrap_or(u32::MAX).clamp(1, MAX_STEPS)
}

impl State {
    fn new(steps: u32, is_draining: bool) -> Self {
        Self {
            step: Cell::new(0),
            due: (0..steps).map(|_| RefCell::default()).collect(),
            looks: Cell::new(0),
            waiting: RefCell::default(),
            is_draining: Cell::new(is_draining),
            closes_idle: Cell::new(false),
            is_over: Cell::new(false),
        }
    }

    fn advance(&self) {
        let step = self.step.get() + 1;
        self.step.set(step);
        wake(self.due_at(step));
    }

    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
        wake(&self.waiting);
    }

    /// The drain has reached a further point.
    fn enter(&self, point: &Cell<bool>) {
        point.set(true);
        self.due.iter().for_each(wake);
    }

    fn due_at(&self, step: usize) -> &RefCell<Slab<Waker>> {
        &self.due[step % self.due.len()]
    }
}

/// Registers a task among `wakers`. `slot`: where it is registered already, if it is.
fn register(wakers: &RefCell<Slab<Waker>>, slot: Option<usize>, waker: &Waker) -> usize {
    let mut wakers = wakers.borrow_mut();
    let Some(slot) = slot else { return wakers.insert(waker.clone()) };
    if !wakers[slot].will_wake(waker) {
        wakers[slot].clone_from(waker);
    }
    slot
}

/// Waking only schedules a task, so none enters or leaves a place meanwhile.
fn wake(wakers: &RefCell<Slab<Waker>>) {
    wakers.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
}

/// Runs until all handles are dropped.
async fn run(
    state: Rc<State>,
    step: Duration,
    drain: Drain,
    dropped: oneshot::Receiver<Infallible>,
) {
    let steps = every(step, || state.advance());
    let looks = every(LOOK, || state.look());
    let mut begins = drain.clone();
    let mut ends = drain;
    let begun = async {
        begins.requested().await;
        state.enter(&state.is_draining);
        sleep(IDLE_DRAIN).await;
        state.enter(&state.closes_idle);
        pending::<()>().await;
    };
    let over = async {
        ends.over().await;
        // The drain may be shorter than the time for idle connections.
        state.closes_idle.set(true);
        state.enter(&state.is_over);
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        _ = dropped => {}
        () = steps => {}
        () = looks => {}
        () = begun => {}
        () = over => {}
    }
}

/// Acts after each period. Periods that the thread was suspended for are left out.
async fn every(period: Duration, act: impl Fn()) {
    let mut ends = interval(period);
    ends.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first tick is the beginning.
    ends.tick().await;
    loop {
        ends.tick().await;
        act();
    }
}

/// The ticks of one connection, which also wake it when the drain proceeds.
#[derive(Debug)]
pub struct Ticks {
    ticker: Ticker,
    /// The step of the next tick. In each period the task has the same slot at the same step.
    next: usize,
    slot: Option<usize>,
    /// The slot of the task while it waits for a look, and how many looks there were before.
    look: Option<(usize, usize)>,
}

impl Ticks {
    /// What the ticks are of.
    pub const fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    /// Whether a tick has come since the last call: one, however many the task has missed. The
    /// task is woken by the next one, and when the drain proceeds.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &*self.ticker.0.state;
        self.slot = Some(register(state.due_at(self.next), self.slot, cx.waker()));
        let Some(late) = state.step.get().checked_sub(self.next) else { return Poll::Pending };
        self.next += state.due.len() * (1 + late / state.due.len());
        Poll::Ready(())
    }

    /// Whether it is time for a look, which is at most 0.1 s after the first call and after the
    /// last one that was ready. The task is woken then, unless [`forget_look`](Self::forget_look)
    /// is called.
    pub fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &*self.ticker.0.state;
        let before = self.look.map_or(state.looks.get(), |(_, before)| before);
        if before < state.looks.get() {
            self.forget_look();
            return Poll::Ready(());
        }
        let slot = register(&state.waiting, self.look.map(|(slot, _)| slot), cx.waker());
        self.look = Some((slot, before));
        Poll::Pending
    }

    /// The task does not wait for a look.
    pub fn forget_look(&mut self) {
        if let Some((slot, _)) = self.look.take() {
            self.ticker.0.state.waiting.borrow_mut().remove(slot);
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.forget_look();
        if let Some(slot) = self.slot {
            self.ticker.0.state.due_at(self.next).borrow_mut().remove(slot);
        }
    }
}
