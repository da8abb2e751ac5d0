//! The end of a request.

use std::mem;

#[cfg(feature = "tower")]
use http::HeaderMap;
use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::decision::{self, Ending};
#[cfg(feature = "tower")]
use tollgate_core::meter::Meter;

use super::Limiter;
use crate::shared::SharedLimiter;

/// The charge of an admitted request, until its cost is known. If it is dropped, units in flight
/// are given back, and everything else stays charged. The lease of a refused request is empty.
///
/// ```
/// use tollgate_limiter::{Algorithm, Key, Limiter, Policy};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let policy = Policy::new("uploads", Key::Custom, "1".parse()?).algorithm(Algorithm::Concurrency);
/// let limiter = Limiter::builder().policy(policy).build()?;
/// let uploads = limiter.policy("uploads")?;
/// let lease = limiter.check(&uploads, "ann").await.into_lease();
/// assert!(!limiter.check(&uploads, "ann").await.is_admitted());
/// drop(lease);
/// assert!(limiter.check(&uploads, "ann").await.is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a lease gives units in flight back"]
pub struct Lease {
    lease: decision::Lease,
    limiter: Limiter,
}

impl Lease {
    pub(super) const fn new(lease: decision::Lease, limiter: Limiter) -> Self {
        Self { lease, limiter }
    }

    /// Settles the request: it has cost `actual` units under each of its policies. More than
    /// was charged is charged even beyond the limit, at most twice the limit in total, and less
    /// is given back. Units in flight are given back.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "9/day".parse()?)).build()?;
    /// let policy = limiter.policy("p")?;
    /// limiter.check_n(&policy, "ann", 5).await.into_lease().settle(2);
    /// let decision = limiter.check_n(&policy, "ann", 0).await;
    /// assert_eq!(decision.reports().next().map(|report| report.remaining()), Some(7));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(mut self, actual: u64) {
        let lease = mem::take(&mut self.lease);
        // At most twice the limit is counted.
        self.shared().settle(lease, actual.min(2 * MAX_LIMIT));
    }

    /// Gives everything back, as if the request had not been made. Until then other requests find
    /// less room. Of a bucket, units that have leaked meanwhile can be used once more, but never more
    /// than were taken.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "9/day".parse()?)).build()?;
    /// let policy = limiter.policy("p")?;
    /// limiter.check_n(&policy, "ann", 9).await.into_lease().give_back();
    /// assert!(limiter.check_n(&policy, "ann", 9).await.is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_back(mut self) {
        let lease = mem::take(&mut self.lease);
        self.shared().give_back(lease);
    }

    fn shared(&self) -> &SharedLimiter {
        self.limiter.as_ref()
    }
}

#[cfg(feature = "tower")]
impl Lease {
    /// Whether the end of the response changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.lease.is_empty()
    }

    /// The meters for the response with these fields, in the order of their readings.
    pub(crate) fn begin_meters(&self, headers: &HeaderMap) -> impl Iterator<Item = Meter> {
        self.lease.begin_meters(headers)
    }

    /// Settles the request by the end of its response.
    pub(crate) fn end(mut self, ending: &Ending<'_>) {
        let lease = mem::take(&mut self.lease);
        self.shared().end(lease, ending);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.lease.in_flight().next().is_some() {
            // The others stay charged, also if they do not count requests without a response.
            let in_flight = self.lease.take_in_flight(|_| true);
            self.shared().end(in_flight, &Ending::default());
        }
    }
}
