//! The answer to a check.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tollgate_core::decision::OwnedDecision;

use super::lookup::{ComingKey, Waiting};
use super::{Decision, Limiter, Missing};
use crate::shared;

/// The answer to a check: a future that does not borrow anything. With counters in memory it is
/// ready when it is first polled, unless API keys are in Redis. If it is dropped before, units in
/// flight are given back.
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
/// let check = limiter.check(&limiter.policy("p")?, "ann");
/// assert!(check.await.is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the request may be refused"]
pub struct Check {
    stage: Stage,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an allocation takes longer than to move a check")]
enum Stage {
    /// The key of the request is looked up first.
    LookingUp(ComingKey, Box<Waiting>),
    Judging(Judging),
}

/// A judgement, and what its decision is told with.
#[derive(Debug)]
pub(super) struct Judging {
    pub(super) check: shared::Check<Limiter>,
    pub(super) missing: Option<Missing>,
    pub(super) is_cross_origin: bool,
}

impl Check {
    pub(super) const fn new(judging: Judging) -> Self {
        Self { stage: Stage::Judging(judging) }
    }

    /// The check of a request whose key is looked up first.
    pub(super) fn after(key: ComingKey, waiting: Waiting) -> Self {
        Self { stage: Stage::LookingUp(key, Box::new(waiting)) }
    }

    /// The decision, if it is there already: with counters in memory it always is. Otherwise the
    /// check can still be awaited. It must not be awaited after the decision.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// let policy = Policy::new("jobs", Key::Custom, "5/s".parse()?);
    /// let (limiter, [jobs]) = Limiter::builder().build_with([policy])?;
    /// let decision = limiter.check(&jobs, "tenant-42").now().expect("it is in memory");
    /// assert!(decision.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn now(&mut self) -> Option<Decision> {
        match &mut self.stage {
            Stage::LookingUp(..) => None,
            Stage::Judging(judging) => {
                let (judged, limiter) = judging.check.now()?;
                Some(judging.decision(judged, limiter))
            }
        }
    }
}

impl Judging {
    fn decision(&self, judged: OwnedDecision, limiter: Limiter) -> Decision {
        Decision::new(judged, limiter, self.missing, self.is_cross_origin)
    }
}

impl Future for Check {
    type Output = Decision;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Decision> {
        if let Stage::LookingUp(key, waiting) = &mut self.stage {
            let looked_up = ready!(Pin::new(key).poll(cx));
            let Waiting { limiter, policies, head, peer } = &**waiting;
            let judging = limiter.judge_request(policies, head, *peer, looked_up);
            self.stage = Stage::Judging(judging);
        }
        match &mut self.stage {
            Stage::LookingUp(..) => Poll::Pending,
            Stage::Judging(judging) => {
                let (judged, limiter) = ready!(Pin::new(&mut judging.check).poll(cx));
                Poll::Ready(judging.decision(judged, limiter))
            }
        }
    }
}
