//! The decision on a request, for any thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use super::counters::Counters;
use crate::decision::{Claims, Ending, OwnedDecision};
use crate::policy::Policy;
use crate::time::Timestamp;

/// The answer to one request. With counters in memory it is ready when it is first polled.
/// If it is dropped before the answer is received, nothing stays in flight.
#[derive(Debug)]
#[must_use = "a check does nothing unless it is awaited"]
pub struct Check {
    counters: Arc<Counters>,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Ready(Box<OwnedDecision>),
    /// If the lane ends before it answers, the claims are judged without the store.
    Coming(oneshot::Receiver<OwnedDecision>, Box<(Claims<Arc<Policy>>, Timestamp)>),
    Taken,
}

impl Check {
    pub(super) fn ready(counters: &Arc<Counters>, decision: OwnedDecision) -> Self {
        Self { counters: Arc::clone(counters), answer: Answer::Ready(Box::new(decision)) }
    }

    /// The answer that `coming` delivers to a request of this time.
    pub(super) fn coming(
        counters: &Arc<Counters>,
        coming: oneshot::Receiver<OwnedDecision>,
        claims: Claims<Arc<Policy>>,
        now: Timestamp,
    ) -> Self {
        let answer = Answer::Coming(coming, Box::new((claims, now)));
        Self { counters: Arc::clone(counters), answer }
    }
}

impl Future for Check {
    type Output = OwnedDecision;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<OwnedDecision> {
        if let Answer::Coming(coming, claims) = &mut self.answer {
            let Poll::Ready(answer) = coming.poll_unpin(cx) else { return Poll::Pending };
            let (claims, now) = &**claims;
            let decision = answer.unwrap_or_else(|_| claims.clone().unjudged(*now));
            self.answer = Answer::Taken;
            return Poll::Ready(decision);
        }
        match std::mem::replace(&mut self.answer, Answer::Taken) {
            Answer::Ready(decision) => Poll::Ready(*decision),
            Answer::Coming(..) | Answer::Taken => {
                panic!("a check must not be polled after it was ready")
            }
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        let decision = match std::mem::replace(&mut self.answer, Answer::Taken) {
            Answer::Ready(decision) => *decision,
            Answer::Coming(mut coming, _) => {
                // From now on the lane itself ends the leases of decisions that it cannot
                // deliver.
                coming.close();
                let Ok(decision) = coming.try_recv() else { return };
                decision
            }
            Answer::Taken => return,
        };
        self.counters.end(decision.lease, &Ending::default());
    }
}
