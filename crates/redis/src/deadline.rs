//! The reply to one call, within one thread, and the deadline of the call.
//!
//! The reply to a call may come after the deadline. The caller gets an error at the deadline,
//! and may wait for the late reply by [`LateReply`] to learn what the server has counted.
//!
//! If the sender is dropped, no reply will come. Only the earliest deadline of all calls needs
//! a timer, see [`Deadlines`]. A timer for each call would cost more than the rest of this
//! module.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::failure::StoreError;

/// The reply to a call, or why there is none.
pub(super) type Reply = Result<Bytes, StoreError>;

/// Sends the reply. Dropping it means that no reply will come.
#[derive(Debug)]
pub(super) struct ReplySender(Rc<Slot>);

/// Waits for the reply.
#[derive(Debug)]
pub(super) struct PendingReply(Rc<Slot>);

/// Waits for a late reply. None: it will never come.
#[derive(Debug)]
#[must_use = "it tells what the server has counted"]
pub(super) struct LateReply(PendingReply);

#[derive(Debug)]
struct Slot {
    state: RefCell<State>,
    /// How often the call was sent.
    times_sent: Cell<u8>,
    /// Whether the deadline was moved.
    is_extended: Cell<bool>,
}

#[derive(Debug)]
enum State {
    /// There is no reply yet. The waker is woken when it comes.
    Open(Option<Waker>),
    Answered(Reply),
    /// The deadline has passed. The waker is woken if the reply still comes.
    Overdue(Option<Waker>),
    /// The reply was taken, no caller waits for it any more, or it will never come.
    Over,
}

impl ReplySender {
    /// The two ends of one reply.
    pub(super) fn new() -> (Self, PendingReply) {
        let state = RefCell::new(State::Open(None));
        let times_sent = Cell::new(0);
        let is_extended = Cell::new(false);
        let slot = Rc::new(Slot { state, times_sent, is_extended });
        (Self(Rc::clone(&slot)), PendingReply(slot))
    }

    /// Whether the deadline has passed, or no caller waits any more. Such a call is not sent.
    pub(super) fn is_closed(&self) -> bool {
        is_closed(&self.0)
    }

    /// Records that the call is sent.
    pub(super) fn mark_sent(&self) {
        self.0.times_sent.set(self.0.times_sent.get().saturating_add(1));
    }

    /// Records that the call was sent in vain: the server has refused it before it counted
    /// anything.
    pub(super) fn unmark_sent(&self) {
        self.0.times_sent.set(self.0.times_sent.get().saturating_sub(1));
    }

    /// How often the call was sent.
    pub(super) fn times_sent(&self) -> u8 {
        self.0.times_sent.get()
    }

    /// Whether the call was sent only once, and a caller still waits for the reply.
    pub(super) fn may_be_sent_again(&self) -> bool {
        self.0.times_sent.get() <= 1 && !self.is_closed()
    }

    /// Passes the reply to the caller.
    pub(super) fn send(self, answer: Reply) {
        settle(&self.0, State::Answered(answer));
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        let is_open = matches!(*self.0.state.borrow(), State::Open(_));
        settle(&self.0, if is_open { State::Answered(self.0.silence()) } else { State::Over });
    }
}

impl Slot {
    /// The error for a caller whose deadline has passed.
    fn silence(&self) -> Reply {
        Err(if self.times_sent.get() == 0 { StoreError::NotSent } else { StoreError::Timeout })
    }
}

fn is_closed(slot: &Slot) -> bool {
    !matches!(*slot.state.borrow(), State::Open(_))
}

/// Stores the first reply, and wakes the caller that waits.
fn settle(slot: &Slot, next: State) {
    let waker = match &mut *slot.state.borrow_mut() {
        State::Open(waker) | State::Overdue(waker) => waker.take(),
        State::Answered(_) | State::Over => return,
    };
    slot.state.replace(next);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Ends a call at its deadline.
fn pass(slot: &Slot) {
    if !is_closed(slot) {
        settle(slot, State::Overdue(None));
    }
}

impl PendingReply {
    /// How often the call was sent: 0 if the server cannot have received it.
    pub(super) fn times_sent(&self) -> u8 {
        self.0.times_sent.get()
    }

    /// Gives up the call before or after its deadline. If it was not sent, it will not be.
    /// Returns the late reply that may still come.
    pub(super) fn give_up(self) -> Option<LateReply> {
        pass(&self.0);
        let is_expected = !matches!(*self.0.state.borrow(), State::Over);
        (is_expected && self.times_sent() > 0).then_some(LateReply(self))
    }

    /// The reply, if it has come. Otherwise `waker` is kept if it may come later, also after
    /// the deadline.
    fn take(&self, waker: Option<&Waker>) -> Option<Reply> {
        let mut state = self.0.state.borrow_mut();
        match &mut *state {
            State::Open(kept) | State::Overdue(kept) => {
                if let Some(waker) = waker {
                    match kept {
                        Some(kept) => kept.clone_from(waker),
                        None => *kept = Some(waker.clone()),
                    }
                }
                return None;
            }
            State::Answered(_) | State::Over => {}
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Some(answer),
            State::Open(_) | State::Overdue(_) | State::Over => None,
        }
    }
}

impl Future for PendingReply {
    type Output = Reply;

    /// The reply, or the error at the deadline.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let is_open = matches!(*self.0.state.borrow(), State::Open(_));
        match self.take(is_open.then_some(cx.waker())) {
            Some(answer) => Poll::Ready(answer),
            None if is_open => Poll::Pending,
            None => Poll::Ready(self.0.silence()),
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.0.state.replace(State::Over);
    }
}

impl Future for LateReply {
    type Output = Option<Reply>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let is_over = matches!(*self.0.0.state.borrow(), State::Over);
        match self.0.take(Some(cx.waker())) {
            None if !is_over => Poll::Pending,
            answer => Poll::Ready(answer),
        }
    }
}

/// The deadlines of the calls of one link, the earliest first. Most calls have the same
/// timeout, so a new deadline is usually the last.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    calls: VecDeque<(Instant, Rc<Slot>)>,
    /// When the caller's timer ends, if it runs.
    timer: Option<Instant>,
}

impl Deadlines {
    /// Adds a deadline. Returns whether the caller must start a timer for it, because none runs
    /// that ends by then.
    pub(super) fn add(&mut self, deadline: Instant, awaited: &PendingReply) -> bool {
        // So their number is about the number of open calls.
        while self.calls.front().is_some_and(|(_, slot)| is_closed(slot)) {
            self.calls.pop_front();
        }
        self.insert(deadline, Rc::clone(&awaited.0));
        let is_watched = self.timer.is_some_and(|end| end <= deadline);
        if !is_watched {
            self.timer = Some(deadline);
        }
        !is_watched
    }

    fn insert(&mut self, deadline: Instant, slot: Rc<Slot>) {
        let before = self.calls.iter().rposition(|(other, _)| *other <= deadline);
        self.calls.insert(before.map_or(0, |before| before + 1), (deadline, slot));
    }

    /// Ends the calls whose deadlines have passed at `now`. Returns the next deadline, if there
    /// is one. Then the caller must start a timer for it.
    pub(super) fn pass(&mut self, now: Instant) -> Option<Instant> {
        while let Some((deadline, slot)) = self.calls.front()
            && (is_closed(slot) || *deadline <= now)
        {
            pass(slot);
            self.calls.pop_front();
        }
        self.timer = self.calls.front().map(|(deadline, _)| *deadline);
        self.timer
    }

    /// This process did not run for so long until `now`. Calls that were not sent before their
    /// deadline get this time again, once.
    pub(super) fn extend(&mut self, now: Instant, stood_still: Duration) {
        let passed = self.calls.iter().take_while(|(deadline, _)| *deadline <= now).count();
        let passed: Vec<_> = self.calls.drain(..passed).collect();
        for (deadline, slot) in passed {
            let is_unsent = slot.times_sent.get() == 0 && !is_closed(&slot);
            let is_extended = is_unsent && !slot.is_extended.replace(true);
            self.insert(if is_extended { now + stood_still } else { deadline }, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tollgate_core::time::monotonic;

    use super::*;

    const TIMEOUT: Option<Reply> = Some(Err(StoreError::Timeout));
    const NOT_SENT: Option<Reply> = Some(Err(StoreError::NotSent));

    fn answer(text: &'static str) -> Reply {
        Ok(text.into())
    }

    #[test]
    fn the_first_answer_holds_and_wakes_who_waits() {
        let (sender, mut awaited) = ReplySender::new();
        let mut deadlines = Deadlines::default();
        let now = monotonic();
        deadlines.add(now, &awaited);
        assert_eq!((&mut awaited).now_or_never(), None);
        sender.send(answer("yes"));
        assert_eq!(deadlines.pass(now), None);
        assert_eq!(awaited.now_or_never(), Some(answer("yes")));
    }

    #[test]
    fn a_promise_that_is_dropped_is_an_answer_that_did_not_come_in_time() {
        let (sender, awaited) = ReplySender::new();
        drop(sender);
        assert_eq!(awaited.now_or_never(), NOT_SENT);
        let (sender, awaited) = ReplySender::new();
        sender.mark_sent();
        drop(sender);
        assert_eq!(awaited.now_or_never(), TIMEOUT);
    }

    /// A call that was sent and whose deadline has passed.
    fn overdue() -> (ReplySender, PendingReply) {
        let (sender, mut awaited) = ReplySender::new();
        let mut deadlines = Deadlines::default();
        let now = monotonic();
        deadlines.add(now, &awaited);
        sender.mark_sent();
        deadlines.pass(now);
        assert_eq!((&mut awaited).now_or_never(), TIMEOUT);
        (sender, awaited)
    }

    #[test]
    fn an_answer_that_comes_late_is_told_to_those_who_wait_for_it() {
        let (sender, awaited) = overdue();
        let mut late = awaited.give_up().expect("the call was sent");
        assert_eq!((&mut late).now_or_never(), None);
        sender.send(answer("late"));
        assert_eq!(late.now_or_never(), Some(Some(answer("late"))));
    }

    #[test]
    fn an_answer_that_never_comes_is_not_waited_for() {
        let (sender, awaited) = overdue();
        let mut late = awaited.give_up().expect("the call was sent");
        assert_eq!((&mut late).now_or_never(), None);
        drop(sender);
        assert_eq!(late.now_or_never(), Some(None));
        let (sender, awaited) = overdue();
        drop(sender);
        assert!(awaited.give_up().is_none());
    }

    #[test]
    fn a_call_that_is_given_up_is_not_sent_and_then_has_no_late_answer() {
        let (sender, awaited) = ReplySender::new();
        assert!(awaited.give_up().is_none());
        assert!(sender.is_closed());
        let (sender, awaited) = ReplySender::new();
        sender.mark_sent();
        let late = awaited.give_up().expect("the call was sent");
        assert!(sender.is_closed() && !sender.may_be_sent_again());
        sender.send(answer("late"));
        assert_eq!(late.now_or_never(), Some(Some(answer("late"))));
    }

    #[test]
    fn an_answer_between_the_end_of_the_time_and_the_next_look_is_in_time() {
        let (sender, awaited) = ReplySender::new();
        let mut deadlines = Deadlines::default();
        let now = monotonic();
        deadlines.add(now, &awaited);
        sender.mark_sent();
        deadlines.pass(now);
        sender.send(answer("just now"));
        assert_eq!(awaited.now_or_never(), Some(answer("just now")));
    }

    #[test]
    fn a_promise_is_closed_when_nobody_waits_or_when_its_time_is_over() {
        let (sender, awaited) = ReplySender::new();
        assert!(!sender.is_closed());
        drop(awaited);
        assert!(sender.is_closed());

        let (sender, awaited) = ReplySender::new();
        let mut deadlines = Deadlines::default();
        let now = monotonic();
        deadlines.add(now, &awaited);
        deadlines.pass(now);
        assert!(sender.is_closed());
        assert_eq!(awaited.now_or_never(), NOT_SENT);
    }

    #[test]
    fn deadlines_pass_one_by_one_and_only_of_what_is_still_open() {
        let mut deadlines = Deadlines::default();
        let start = monotonic();
        let at = |ms| start + Duration::from_millis(ms);
        let mut calls: Vec<_> = (0..4).map(|_| ReplySender::new()).collect();
        let firsts: Vec<_> =
            (0..).zip(&calls).map(|(ms, (_, awaited))| deadlines.add(at(ms), awaited)).collect();
        assert_eq!(firsts, [true, false, false, false]);
        let (second, _awaited) = calls.remove(1);
        second.send(answer("in time"));
        assert_eq!(deadlines.pass(at(0)), Some(at(2)));
        let closed: Vec<_> = calls.iter().map(|(sender, _)| sender.is_closed()).collect();
        assert_eq!(closed, [true, false, false]);
        assert_eq!(deadlines.pass(at(3)), None);
    }

    /// Calls one after the other need no timer each.
    #[test]
    fn a_timer_that_runs_serves_later_calls() {
        let mut deadlines = Deadlines::default();
        let start = monotonic();
        let at = |ms| start + Duration::from_millis(ms);
        let mut call_until = |ms| {
            let (sender, awaited) = ReplySender::new();
            let needs_timer = deadlines.add(at(ms), &awaited);
            sender.send(answer("at once"));
            needs_timer
        };
        assert_eq!([20, 21, 39].map(&mut call_until), [true, false, false]);
        assert_eq!(deadlines.pass(at(20)), None);
        let (_sender, awaited) = ReplySender::new();
        assert!(deadlines.add(at(40), &awaited), "the timer has ended");
        let (_sender, awaited) = ReplySender::new();
        assert!(!deadlines.add(at(45), &awaited));
        assert_eq!(deadlines.pass(at(40)), Some(at(45)), "the caller starts it again");
        let (_sender, awaited) = ReplySender::new();
        assert!(!deadlines.add(at(60), &awaited));
    }

    #[test]
    fn a_call_that_may_wait_less_long_than_others_is_over_before_them() {
        let mut deadlines = Deadlines::default();
        let start = monotonic();
        let at = |ms| start + Duration::from_millis(ms);
        let calls: Vec<_> = (0..4).map(|_| ReplySender::new()).collect();
        let order = [20, 30, 10, 25];
        let firsts: Vec<_> = order
            .into_iter()
            .zip(&calls)
            .map(|(ms, (_, awaited))| deadlines.add(at(ms), awaited))
            .collect();
        assert_eq!(firsts, [true, false, true, false]);
        let closed = || calls.iter().map(|(it, _)| it.is_closed()).collect::<Vec<_>>();
        assert_eq!(deadlines.pass(at(10)), Some(at(20)));
        assert_eq!(closed(), [false, false, true, false]);
        assert_eq!(deadlines.pass(at(25)), Some(at(30)));
        assert_eq!(closed(), [true, false, true, true]);
    }

    #[test]
    fn a_call_that_was_not_sent_gets_the_time_of_a_standstill_again_once() {
        let mut deadlines = Deadlines::default();
        let start = monotonic();
        let at = |ms| start + Duration::from_millis(ms);
        let (sent, first) = ReplySender::new();
        let (waits, second) = ReplySender::new();
        deadlines.add(at(20), &first);
        deadlines.add(at(25), &second);
        sent.mark_sent();
        let stood_still = Duration::from_millis(40);
        deadlines.extend(at(60), stood_still);
        assert_eq!(deadlines.pass(at(60)), Some(at(100)));
        assert_eq!((sent.is_closed(), waits.is_closed()), (true, false));
        deadlines.extend(at(140), stood_still);
        assert_eq!(deadlines.pass(at(140)), None);
        assert!(waits.is_closed());
    }

    #[test]
    fn answered_calls_do_not_pile_up() {
        let mut deadlines = Deadlines::default();
        let now = monotonic();
        for _ in 0..1000 {
            let (sender, awaited) = ReplySender::new();
            deadlines.add(now, &awaited);
            sender.send(answer("yes"));
        }
        assert_eq!(deadlines.calls.len(), 1);
    }
}
