//! `Expect: 100-continue` (RFC 9110, section 10.1.1): a body that the client
//! sends only when it is asked for it.
//!
//! The client is asked when the body is read for the first time, so the body is
//! not read before the upstream has said 100. An upstream may know nothing of
//! expectations, so it is read after a while in any case. After the upstream's
//! final response it is not read any more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::{Sleep, sleep};

/// How long an upstream may take to say 100 before it gets the body unasked:
/// about as long as clients wait for the same.
const PATIENCE: Duration = Duration::from_secs(1);

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const SHUT: u8 = 2;

/// Whether a body may be read. The types demand that it could be shared with
/// other threads, though there are none.
#[derive(Clone, Debug, Default)]
pub struct Expectation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    reader: AtomicWaker,
}

impl Expectation {
    /// The upstream wants the body.
    pub fn meet(&self) {
        if self.change(OPEN) {
            self.0.reader.wake();
        }
    }

    /// The request is answered: if the body is not wanted by now, it never is.
    pub fn refuse(&self) {
        self.change(SHUT);
    }

    /// Whether the body may not be read yet.
    pub(in crate::proxy) fn is_waiting(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == CLOSED
    }

    /// Only the first change holds. Whether this is it.
    fn change(&self, to: u8) -> bool {
        self.0.state.compare_exchange(CLOSED, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The body's part of an expectation.
#[derive(Debug)]
pub(super) struct Held {
    expectation: Expectation,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Held {
    pub(super) fn until(expectation: Expectation) -> Self {
        Self { expectation, patience: None }
    }

    pub(super) fn expectation(&self) -> &Expectation {
        &self.expectation
    }

    /// Ready when the body may be read: never if the request is answered before.
    pub(super) fn poll_met(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &self.expectation.0;
        shared.reader.register(cx.waker());
        match shared.state.load(Ordering::Relaxed) {
            OPEN => return Poll::Ready(()),
            SHUT => return Poll::Pending,
            _ => {}
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        if patience.as_mut().poll(cx).is_pending() {
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

    fn held() -> (Expectation, Held) {
        let expectation = Expectation::default();
        (expectation.clone(), Held::until(expectation))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_when_the_upstream_wants_it() {
        let (expectation, mut held) = held();
        assert!(expectation.is_waiting());
        let test = async {
            let waiting = spawn_local(async move { poll_fn(|cx| held.poll_met(cx)).await });
            yield_now().await;
            assert!(!waiting.is_finished());
            expectation.meet();
            assert!(timeout(PATIENCE / 2, waiting).await.is_ok(), "it is woken");
        };
        LocalSet::new().run_until(test).await;
        assert!(!expectation.is_waiting());
        expectation.refuse();
        let mut held = Held::until(expectation);
        let is_read = timeout(PATIENCE / 2, poll_fn(|cx| held.poll_met(cx))).await.is_ok();
        assert!(is_read, "it was asked for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_after_a_while_where_the_upstream_says_nothing() {
        let (expectation, mut held) = held();
        assert!(timeout(PATIENCE / 2, poll_fn(|cx| held.poll_met(cx))).await.is_err());
        assert!(timeout(PATIENCE, poll_fn(|cx| held.poll_met(cx))).await.is_ok());
        assert!(!expectation.is_waiting());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_never_read_after_the_answer() {
        let (expectation, mut held) = held();
        expectation.refuse();
        expectation.meet();
        assert!(timeout(PATIENCE * 2, poll_fn(|cx| held.poll_met(cx))).await.is_err());
    }
}
