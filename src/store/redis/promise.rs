//! An answer that one call waits for, within one thread, and the time by which
//! it must have come.
//!
//! Whoever promises an answer and goes without giving it has let the time pass.
//! Of the deadlines of all calls only the earliest needs a timer: see
//! [`Deadlines`]. A timer for each call would cost more than the rest of its
//! way through here.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::batch::Answer;
use super::failure::StoreError;

/// Whoever holds it owes an answer.
#[derive(Debug)]
pub(super) struct Promise(Rc<Slot>);

/// Waits for the answer.
#[derive(Debug)]
pub(super) struct Awaited(Rc<Slot>);

#[derive(Debug)]
struct Slot {
    state: RefCell<State>,
    /// How often the call went out.
    times_sent: Cell<u8>,
}

#[derive(Debug)]
enum State {
    /// There is no answer yet; whom to wake when there is.
    Open(Option<Waker>),
    Answered(Answer),
    /// The answer was taken, or nobody waits for it any more.
    Over,
}

impl Promise {
    /// A promise, and who waits for it.
    pub(super) fn new() -> (Self, Awaited) {
        let state = RefCell::new(State::Open(None));
        let slot = Rc::new(Slot { state, times_sent: Cell::new(0) });
        (Self(Rc::clone(&slot)), Awaited(slot))
    }

    /// Whether no answer is waited for any more.
    pub(super) fn is_closed(&self) -> bool {
        is_closed(&self.0)
    }

    /// The call goes out.
    pub(super) fn departs(&self) {
        self.0.times_sent.set(self.0.times_sent.get().saturating_add(1));
    }

    /// Whether the call went out only once, and an answer is still waited for.
    pub(super) fn may_be_sent_again(&self) -> bool {
        self.0.times_sent.get() <= 1 && !self.is_closed()
    }

    /// Tells the answer, unless it is too late.
    pub(super) fn keep(self, answer: Answer) {
        settle(&self.0, answer);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        settle(&self.0, Err(StoreError::Timeout));
    }
}

fn is_closed(slot: &Slot) -> bool {
    !matches!(*slot.state.borrow(), State::Open(_))
}

/// The first answer holds.
fn settle(slot: &Slot, answer: Answer) {
    let waker = match &mut *slot.state.borrow_mut() {
        State::Open(waker) => waker.take(),
        State::Answered(_) | State::Over => return,
    };
    slot.state.replace(State::Answered(answer));
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Awaited {
    /// How often the call went out: 0 if the server cannot have seen it.
    pub(super) fn times_sent(&self) -> u8 {
        self.0.times_sent.get()
    }
}

impl Future for Awaited {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.0.state.borrow_mut();
        if let State::Open(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Poll::Ready(answer),
            State::Open(_) | State::Over => Poll::Ready(Err(StoreError::Timeout)),
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.state.replace(State::Over);
    }
}

/// By when the calls of one link must have been answered. All may wait equally
/// long, so they stand in order.
#[derive(Debug, Default)]
pub(super) struct Deadlines(VecDeque<(Instant, Rc<Slot>)>);

impl Deadlines {
    /// What is awaited is over at `deadline`. Whether nothing was here before:
    /// then somebody must look at the time.
    pub(super) fn add(&mut self, deadline: Instant, awaited: &Awaited) -> bool {
        let was_empty = self.0.is_empty();
        // So there are about as many as there are open calls.
        while self.0.front().is_some_and(|(_, slot)| is_closed(slot)) {
            self.0.pop_front();
        }
        self.0.push_back((deadline, Rc::clone(&awaited.0)));
        was_empty
    }

    /// Ends what is over at `now`. When the next is, if there is one.
    pub(super) fn pass(&mut self, now: Instant) -> Option<Instant> {
        while let Some((deadline, slot)) = self.0.front() {
            if is_closed(slot) || *deadline <= now {
                settle(slot, Err(StoreError::Timeout));
                self.0.pop_front();
            } else {
                return Some(*deadline);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::time::monotonic;

    const TIMEOUT: Option<Answer> = Some(Err(StoreError::Timeout));

    fn answer(text: &'static str) -> Answer {
        Ok(text.into())
    }

    #[test]
    fn the_first_answer_holds_and_wakes_who_waits() {
        let (promise, mut awaited) = Promise::new();
        let mut deadlines = Deadlines::default();
        let now = monotonic();
        deadlines.add(now, &awaited);
        assert_eq!((&mut awaited).now_or_never(), None);
        promise.keep(answer("yes"));
        assert_eq!(deadlines.pass(now), None);
        assert_eq!(awaited.now_or_never(), Some(answer("yes")));
    }

    #[test]
    fn a_promise_that_is_dropped_is_an_answer_that_did_not_come_in_time() {
        let (promise, awaited) = Promise::new();
        drop(promise);
        assert_eq!(awaited.now_or_never(), TIMEOUT);
    }

    #[test]
    fn a_promise_is_closed_when_nobody_waits_or_when_its_time_is_over() {
        let (promise, awaited) = Promise::new();
        assert!(!promise.is_closed());
        drop(awaited);
        assert!(promise.is_closed());

        let (promise, awaited) = Promise::new();
        let (mut deadlines, now) = (Deadlines::default(), monotonic());
        deadlines.add(now, &awaited);
        deadlines.pass(now);
        assert!(promise.is_closed());
        promise.keep(answer("too late"));
        assert_eq!(awaited.now_or_never(), TIMEOUT);
    }

    #[test]
    fn deadlines_pass_one_by_one_and_only_of_what_is_still_open() {
        let (mut deadlines, start) = (Deadlines::default(), monotonic());
        let at = |ms| start + Duration::from_millis(ms);
        let mut calls: Vec<_> = (0..4).map(|_| Promise::new()).collect();
        let firsts: Vec<_> =
            (0..).zip(&calls).map(|(ms, (_, awaited))| deadlines.add(at(ms), awaited)).collect();
        assert_eq!(firsts, [true, false, false, false]);
        let (second, _awaited) = calls.remove(1);
        second.keep(answer("in time"));
        assert_eq!(deadlines.pass(at(0)), Some(at(2)));
        let closed: Vec<_> = calls.iter().map(|(promise, _)| promise.is_closed()).collect();
        assert_eq!(closed, [true, false, false]);
        assert_eq!(deadlines.pass(at(3)), None);
    }

    #[test]
    fn answered_calls_do_not_pile_up() {
        let (mut deadlines, now) = (Deadlines::default(), monotonic());
        for _ in 0..1000 {
            let (promise, awaited) = Promise::new();
            deadlines.add(now, &awaited);
            promise.keep(answer("yes"));
        }
        assert_eq!(deadlines.0.len(), 1);
    }
}
