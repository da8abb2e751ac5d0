//! The reports of policies.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::algorithm::Retry;
use tollgate_core::decision;
use tollgate_core::policy::{Mode, Policy};
use tollgate_core::store::Source;

/// The report of one policy on a request. Its text is one line:
/// `per-client: refused, 100 used of 100, costs 1, fits in 12s`.
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
/// let decision = limiter.check_n(&limiter.policy("p")?, "ann", 2).await;
/// let report = decision.reports().next().ok_or("one policy")?;
/// assert_eq!(report.to_string(), "p: admitted, 2 used of 5, costs 2");
/// assert_eq!((report.policy(), report.limit(), report.used()), ("p", 5, 2));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Report<'d>(&'d decision::Report<Arc<Policy>>);

impl<'d> Report<'d> {
    /// The name of the policy. For an example see [`Report`].
    pub fn policy(&self) -> &'d str {
        &self.0.policy.name
    }

    /// The decision of this policy in one word: `admitted`, `soft`, `elastic`, `refused`,
    /// `banned`, `shadow_refused`, `failed_closed` or `failed_open`. For an example see
    /// [`Report`].
    pub fn outcome(&self) -> &'static str {
        self.0.outcome()
    }

    /// Whether the policy refuses the request. For an example see [`Report`].
    pub fn refuses(&self) -> bool {
        self.0.refuses()
    }

    /// Whether the policy only counts and reports. For an example see [`Report`].
    pub fn is_shadow(&self) -> bool {
        self.0.policy.mode == Mode::Shadow
    }

    /// Whether this process has decided without the store. For an example see [`Report`].
    pub const fn is_local(&self) -> bool {
        matches!(self.0.source, Source::Local)
    }

    /// The limit, in units. For an example see [`Report`].
    pub const fn limit(&self) -> u64 {
        self.0.verdict.limit
    }

    /// The units that remain. For an example see [`Report`].
    pub const fn remaining(&self) -> u64 {
        self.0.verdict.remaining
    }

    /// The units that count against the limit. For an example see [`Report`].
    pub const fn used(&self) -> u64 {
        self.0.used
    }

    /// The units that the request costs. For an example see [`Report`].
    pub const fn cost(&self) -> u64 {
        self.0.cost
    }

    /// The time until nothing is counted any more. For an example see [`Report`].
    pub fn reset_after(&self) -> Duration {
        self.0.verdict.reset_after.into()
    }

    /// The time until the request fits. Zero: now. None: it never does. For an example see
    /// [`Report`].
    pub fn retry_after(&self) -> Option<Duration> {
        wait(self.0.verdict.retry)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The reports of the policies that have judged a request, in their order.
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Custom, "5/s".parse()?)).build()?;
/// let decision = limiter.check(&limiter.policy("p")?, "ann").await;
/// assert_eq!(decision.reports().len(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reports<'d>(slice::Iter<'d, decision::Report<Arc<Policy>>>);

impl<'d> Reports<'d> {
    pub(super) fn new(reports: &'d [decision::Report<Arc<Policy>>]) -> Self {
        Self(reports.iter())
    }
}

impl<'d> Iterator for Reports<'d> {
    type Item = Report<'d>;

    fn next(&mut self) -> Option<Report<'d>> {
        self.0.next().map(Report)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Reports<'_> {}

/// The wait, if waiting helps.
pub(super) fn wait(retry: Retry) -> Option<Duration> {
    match retry {
        Retry::Now => Some(Duration::ZERO),
        Retry::After(wait) => Some(wait.into()),
        Retry::Never => None,
    }
}
