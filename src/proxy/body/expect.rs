//! `Expect: 100-continue` (RFC 9110, section 10.1.1): the client sends its body
//! only after a `100 Continue`.
//!
//! The client is sent `100 Continue` when its body is read for the first time.
//! Therefore the body is not read before the upstream has sent `100 Continue`. An
//! upstream may not know expectations, so the body is read after a timeout in any
//! case. After the upstream's final response the body is no longer read.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// How long an upstream may take to send `100 Continue` before it is sent the body
/// without it. Clients wait about as long.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a body may be read.
#[derive(Clone, Debug, Default)]
pub struct Expectation(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Cell<State>,
    /// The task that waits to read the body.
    reader: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    Met,
    Refused,
}

impl Expectation {
    /// The upstream wants the body.
    pub fn meet(&self) {
        if self.change(State::Met)
            && let Some(reader) = self.0.reader.take()
        {
            reader.wake();
        }
    }

    /// The request has its response: a body that was not wanted until now is never
    /// read.
    pub fn refuse(&self) {
        self.change(State::Refused);
    }

    /// Whether the body may not be read yet.
    pub fn is_waiting(&self) -> bool {
        self.0.state.get() == State::Waiting
    }

    /// Only the first change has an effect. Returns whether this is the first.
    fn change(&self, to: State) -> bool {
        let is_first = self.is_waiting();
        if is_first {
            self.0.state.set(to);
        }
        is_first
    }
}

/// Keeps a body from being read until its expectation is met.
#[derive(Debug)]
pub struct BodyGate {
    expectation: Expectation,
    timeout: Option<Pin<Box<Sleep>>>,
}

impl BodyGate {
    pub fn new(expectation: Expectation) -> Self {
        Self { expectation, timeout: None }
    }

    pub fn expectation(&self) -> &Expectation {
        &self.expectation
    }

    /// Ready when the body may be read: never if the response has come before.
    pub fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &self.expectation.0;
        match shared.state.get() {
            State::Met => return Poll::Ready(()),
            State::Refused => return Poll::Pending,
            State::Waiting => shared.reader.replace(Some(cx.waker().clone())),
        };
        let timeout = self.timeout.get_or_insert_with(|| Box::pin(sleep(CONTINUE_TIMEOUT)));
        if timeout.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.expectation.meet();
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::task::{LocalSet, spawn_local, yield_now};
    use tokio::time::timeout;

    use super::*;

    fn gate() -> (Expectation, BodyGate) {
        let expectation = Expectation::default();
        (expectation.clone(), BodyGate::new(expectation))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_when_the_upstream_wants_it() {
        let (expectation, mut body) = gate();
        assert!(expectation.is_waiting());
        let test = async {
            let waiting = spawn_local(async move { poll_fn(|cx| body.poll_open(cx)).await });
            yield_now().await;
            assert!(!waiting.is_finished());
            expectation.meet();
            assert!(timeout(CONTINUE_TIMEOUT / 2, waiting).await.is_ok(), "it is woken");
        };
        LocalSet::new().run_until(test).await;
        assert!(!expectation.is_waiting());
        expectation.refuse();
        let mut body = BodyGate::new(expectation);
        let is_read = timeout(CONTINUE_TIMEOUT / 2, poll_fn(|cx| body.poll_open(cx))).await.is_ok();
        assert!(is_read, "it was wanted before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_after_a_timeout_if_the_upstream_sends_nothing() {
        let (expectation, mut body) = gate();
        assert!(timeout(CONTINUE_TIMEOUT / 2, poll_fn(|cx| body.poll_open(cx))).await.is_err());
        assert!(timeout(CONTINUE_TIMEOUT, poll_fn(|cx| body.poll_open(cx))).await.is_ok());
        assert!(!expectation.is_waiting());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_never_read_after_the_response() {
        let (expectation, mut body) = gate();
        expectation.refuse();
        expectation.meet();
        assert!(timeout(CONTINUE_TIMEOUT * 2, poll_fn(|cx| body.poll_open(cx))).await.is_err());
    }
}
