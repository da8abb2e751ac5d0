//! What a limiter and its policies consist of.

use std::fmt;
use std::sync::Arc;

use tollgate_core::decision::HeaderWriter;
use tollgate_core::policy::{Clients, Policy};
use tollgate_core::time;

use super::Clock;
use super::key_source::KeySource;
use crate::shared::SharedLimiter;

/// Decides on requests by policies. Clones share their counters.
///
/// With counters in memory, a decision is made by the caller and never waits. With counters in
/// Redis, threads of the limiter make it.
///
/// ```
/// use tollgate_limiter::{Key, Limiter, Outcome, Policy};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Limiter::builder()
///     .policy(Policy::new("mails", Key::Custom, "2/day".parse()?))
///     .build()?;
/// let mails = limiter.policy("mails")?;
/// for _ in 0..2 {
///     assert!(limiter.check(&mails, "ann").await.is_admitted());
/// }
/// let refused = limiter.check(&mails, "ann").await;
/// assert!(matches!(refused.outcome(), Outcome::Refuse { retry: Some(_) }));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Limiter(pub(super) Arc<Inner>);

/// What the clones of a limiter share.
pub(super) struct Inner {
    pub(super) shared: SharedLimiter,
    pub(super) clients: Clients,
    pub(super) policies: Vec<Arc<Policy>>,
    pub(super) headers: HeaderWriter,
    /// Where API keys are looked up that the settings do not contain.
    pub(super) key_source: KeySource,
    /// By which waits end.
    pub(super) clock: Clock,
    /// Whether the time decides which tokens and keys are valid.
    pub(super) reads_time: bool,
}

/// A policy of a limiter.
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy};
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
/// let policy = limiter.policy("p")?;
/// assert_eq!(policy.name(), "p");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyHandle(pub(super) Arc<Policy>);

impl PolicyHandle {
    /// Its name.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Limiter, Policy};
    /// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
    /// assert_eq!(limiter.policy("p")?.name(), "p");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl AsRef<SharedLimiter> for Limiter {
    fn as_ref(&self) -> &SharedLimiter {
        &self.0.shared
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = self.0.policies.iter().map(|policy| &policy.name);
        f.write_str("Limiter ")?;
        f.debug_list().entries(policies).finish()
    }
}

impl Limiter {
    /// The time of decisions.
    pub(super) fn clock(&self) -> &time::Clock {
        self.0.shared.clock()
    }

    /// Writes the fields about limits.
    pub(super) fn headers(&self) -> &HeaderWriter {
        &self.0.headers
    }
}
