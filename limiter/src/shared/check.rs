//! The answer to a question that was asked from any thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use crate::decision::{Claims, Decision};
use crate::policy::Policy;
use crate::time::Timestamp;

/// A decision that owns its policies.
pub type OwnedDecision = Decision<Arc<Policy>>;

/// The answer to one request, which comes. With counters in memory it is there when
/// it is first polled.
#[derive(Debug)]
#[must_use = "a check does nothing unless it is awaited"]
pub struct Check(Answer);

#[derive(Debug)]
enum Answer {
    Ready(Option<Box<OwnedDecision>>),
    Coming(oneshot::Receiver<OwnedDecision>, Box<(Claims<Arc<Policy>>, Timestamp)>),
}

impl Check {
    pub(super) fn ready(decision: OwnedDecision) -> Self {
        Self(Answer::Ready(Some(Box::new(decision))))
    }

    /// The answer that `coming` brings to a question of this time. If it brings none,
    /// the claims are judged without the store.
    pub(super) fn coming(
        coming: oneshot::Receiver<OwnedDecision>,
        claims: Claims<Arc<Policy>>,
        now: Timestamp,
    ) -> Self {
        Self(Answer::Coming(coming, Box::new((claims, now))))
    }
}

impl Future for Check {
    type Output = OwnedDecision;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<OwnedDecision> {
        match &mut self.0 {
            Answer::Ready(decision) => {
                Poll::Ready(*decision.take().expect("it is not polled after it was ready"))
            }
            Answer::Coming(answer, claims) => answer.poll_unpin(cx).map(|answer| {
                let (claims, now) = &**claims;
                answer.unwrap_or_else(|_| claims.clone().unjudged(*now))
            }),
        }
    }
}
