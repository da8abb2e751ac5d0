//! Waits for room.

use super::{Decision, Limiter, Outcome, PolicyHandle};

impl Limiter {
    /// Waits until a value of your own is admitted under the policy, and charges it. See
    /// [`check`](Self::check).
    ///
    /// The decision is not admitted in two cases only, in which waiting does not help: the cost is
    /// above what the limit can ever admit, or Redis is away and the policy refuses such requests.
    ///
    /// A caller waits for as long as the policy says, and asks again. It is then admitted, unless
    /// another caller has used the units meanwhile. In that case it waits again. Callers that wait
    /// for the same value compete, in no order, and the wait of one caller has no bound. Put a
    /// `tokio::time::timeout` around the call for a bound. [`Algorithm::LeakyBucket`] gives each
    /// caller a place in a queue, so that they go on in their order, each after `max_delay` at
    /// most; beyond that, they compete for a place. If the system's clock is set back by more
    /// than ten minutes, counters in memory begin again: callers then ask again, and those with a
    /// place in the queue go on. If the future is dropped, nothing is in flight.
    ///
    /// It needs a runtime of tokio with timers, unless the clock is [manual](crate::Clock::manual).
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let policy = Policy::new("calls", Key::Custom, "1/10ms".parse()?);
    /// let (limiter, [calls]) = Limiter::builder().build_with([policy])?;
    /// for _ in 0..3 {
    ///     assert!(limiter.until_ready(&calls, "api.example.com").await.is_admitted());
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Algorithm::LeakyBucket`]: crate::Algorithm::LeakyBucket
    pub async fn until_ready(
        &self,
        policy: &PolicyHandle,
        value: impl AsRef<[u8]> + Send,
    ) -> Decision {
        loop {
            let decision = self.check(policy, value.as_ref()).await;
            match decision.outcome() {
                Outcome::Admit { delay } => {
                    self.0.clock.sleep(delay.into()).await;
                    return decision;
                }
                Outcome::Refuse { retry: Some(wait) } => {
                    drop(decision);
                    self.0.clock.sleep(wait.into()).await;
                }
                Outcome::Refuse { retry: None } | Outcome::Unavailable | Outcome::KeyMissing => {
                    return decision;
                }
            }
        }
    }
}
