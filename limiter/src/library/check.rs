//! The answer to a check.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{Decision, Limiter, Missing};
use crate::shared;

/// The answer to a check: a future that does not borrow anything. With counters in memory it is
/// ready when it is first polled. If it is dropped before, units in flight are given back.
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
    check: shared::Check<Limiter>,
    missing: Option<Missing>,
    is_cross_origin: bool,
}

impl Check {
    pub(super) const fn new(
        check: shared::Check<Limiter>,
        missing: Option<Missing>,
        is_cross_origin: bool,
    ) -> Self {
        Self { check, missing, is_cross_origin }
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
        let (judged, limiter) = self.check.now()?;
        Some(Decision::new(judged, limiter, self.missing, self.is_cross_origin))
    }
}

impl Future for Check {
    type Output = Decision;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Decision> {
        let (judged, limiter) = ready!(Pin::new(&mut self.check).poll(cx));
        Poll::Ready(Decision::new(judged, limiter, self.missing, self.is_cross_origin))
    }
}
