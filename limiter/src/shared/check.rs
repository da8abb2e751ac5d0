//! The decision on a request, for any thread.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tollgate_core::decision::{Claims, Ending, OwnedDecision};
use tollgate_core::policy::Policy;
use tollgate_core::time::Timestamp;

use super::SharedLimiter;

/// The answer to one request. With counters in memory it is ready when it is first polled.
/// If it is dropped before the answer is received, nothing stays in flight.
///
/// `L` holds the limiter, and is part of the answer.
#[derive(Debug)]
#[must_use = "a check does nothing unless it is awaited"]
pub(crate) struct Check<L: AsRef<SharedLimiter>> {
    /// None after the answer.
    limiter: Option<L>,
    answer: Answer,
}

/// An answer is not in a box: an allocation takes longer than to move it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most answers are ready")]
enum Answer {
    Ready(OwnedDecision),
    /// If the lane ends before it answers, the claims are judged without the store.
    Coming(oneshot::Receiver<OwnedDecision>, Box<(Claims<Arc<Policy>>, Timestamp)>),
    Taken,
}

impl<L: AsRef<SharedLimiter>> Check<L> {
    pub(crate) const fn ready(limiter: L, decision: OwnedDecision) -> Self {
        Self { limiter: Some(limiter), answer: Answer::Ready(decision) }
    }

    /// The answer that `coming` delivers to a request of this time.
    pub(super) fn coming(
        limiter: L,
        coming: oneshot::Receiver<OwnedDecision>,
        claims: Claims<Arc<Policy>>,
        now: Timestamp,
    ) -> Self {
        let answer = Answer::Coming(coming, Box::new((claims, now)));
        Self { limiter: Some(limiter), answer }
    }
}

impl<L: AsRef<SharedLimiter>> Check<L> {
    /// The answer, if it is ready. It must not be asked for again then.
    pub(crate) fn now(&mut self) -> Option<(OwnedDecision, L)> {
        if !matches!(self.answer, Answer::Ready(_)) {
            return None;
        }
        match mem::replace(&mut self.answer, Answer::Taken) {
            Answer::Ready(decision) => Some((decision, self.limiter.take()?)),
            Answer::Coming(..) | Answer::Taken => None,
        }
    }
}

impl<L: AsRef<SharedLimiter> + Unpin> Future for Check<L> {
    type Output = (OwnedDecision, L);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let decision = match &mut self.answer {
            Answer::Coming(coming, claims) => {
                let Poll::Ready(answer) = coming.poll_unpin(cx) else { return Poll::Pending };
                let (claims, now) = &**claims;
                let decision = answer.unwrap_or_else(|_| claims.clone().unjudged(*now));
                self.answer = Answer::Taken;
                decision
            }
            answer => match mem::replace(answer, Answer::Taken) {
                Answer::Ready(decision) => decision,
                Answer::Coming(..) | Answer::Taken => {
                    panic!("a check must not be polled after it was ready")
                }
            },
        };
        let limiter = self.limiter.take().expect("the limiter stays until the answer is taken");
        Poll::Ready((decision, limiter))
    }
}

impl<L: AsRef<SharedLimiter>> Drop for Check<L> {
    fn drop(&mut self) {
        let Some(limiter) = &self.limiter else { return };
        let decision = match &mut self.answer {
            Answer::Ready(decision) => decision,
            Answer::Coming(coming, _) => {
                // From now on the lane itself ends the leases of decisions that it cannot
                // deliver.
                coming.close();
                let Ok(decision) = coming.try_recv() else { return };
                limiter.as_ref().end(decision.lease, &Ending::ABANDONED);
                return;
            }
            Answer::Taken => return,
        };
        limiter.as_ref().end(mem::take(&mut decision.lease), &Ending::ABANDONED);
    }
}
