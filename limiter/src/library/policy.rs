//! A policy, as an application writes it.

mod treatment;

use std::time::Duration;

use http::{Method, StatusCode};
use tollgate_core::consistency::{Consistency, StoreMode};
use tollgate_core::policy::{MissingKey, Mode};

use super::{Algorithm, Counting, Key, Limit, Plans, Settle};

/// One limit: what it counts by, how much it admits, and what it does beyond that.
///
/// Its methods have the names of the fields in a `gateway.yaml`. What contradicts itself is
/// reported when the limiter is [built](crate::LimiterBuilder::build).
///
/// ```
/// use tollgate_limiter::{Algorithm, Key, OnStoreFailure, Plans, Policy};
///
/// let policy = Policy::new("per-tenant", Key::Header("x-tenant".into()), "100/minute".parse()?)
///     .algorithm(Algorithm::TokenBucket)
///     .burst(20)
///     .soft(10)
///     .plans(Plans::by(Key::Header("x-plan".into())).limit("pro", "1000/minute".parse()?))
///     .on_store_failure(OnStoreFailure::Deny)
///     .exempt_network("10.0.0.0/8");
/// let limiter = tollgate_limiter::Limiter::builder().policy(policy).build()?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    pub(super) name: String,
    pub(super) key: Key,
    /// None: unlimited.
    pub(super) limit: Option<Limit>,
    pub(super) algorithm: Algorithm,
    pub(super) buckets: Option<u32>,
    pub(super) burst: Option<u64>,
    pub(super) max_delay: Option<Duration>,
    pub(super) calendar: Option<String>,
    pub(super) soft_percent: u8,
    pub(super) cost: Cost,
    pub(super) count: Vec<StatusCode>,
    pub(super) mode: Mode,
    pub(super) consistency: Consistency,
    pub(super) missing_key: MissingKey,
    pub(super) plans: Option<Plans>,
    pub(super) exempt: Vec<Exemption>,
    pub(super) counts_preflights: bool,
    pub(super) overrides: bool,
}

/// What a request costs.
#[derive(Clone, Debug)]
pub(super) enum Cost {
    Fixed(u64),
    Header { name: String, default: u64, max: u64 },
    Reserve { units: u64, settle: Settle },
}

/// Requests that a policy exempts.
#[derive(Clone, Debug)]
pub(super) enum Exemption {
    Network(String),
    Method(Method),
    Header(String, String),
}

impl Policy {
    /// A policy that counts requests by `key` and refuses those beyond `limit`. Its name is in
    /// responses and logs. Policies of several processes share their counters if they have the
    /// same name, algorithm and window.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("per-client", Key::Ip, "100/minute".parse()?);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    pub fn new(name: impl Into<String>, key: Key, limit: Limit) -> Self {
        Self { limit: Some(limit), ..Self::unlimited(name, key) }
    }

    /// A policy without a limit of its own: it counts only clients that have a
    /// [plan](Self::plans) with a limit.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Plans, Policy};
    /// let free = Plans::by(Key::Jwt("plan".into())).limit("free", "10/minute".parse()?);
    /// let policy = Policy::unlimited("per-user", Key::User).plans(free);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    pub fn unlimited(name: impl Into<String>, key: Key) -> Self {
        Self {
            name: name.into(),
            key,
            limit: None,
            algorithm: Algorithm::default(),
            buckets: None,
            burst: None,
            max_delay: None,
            calendar: None,
            soft_percent: 0,
            cost: Cost::Fixed(1),
            count: Vec::new(),
            mode: Mode::default(),
            consistency: Consistency::default(),
            missing_key: MissingKey::default(),
            plans: None,
            exempt: Vec::new(),
            counts_preflights: false,
            overrides: false,
        }
    }

    /// Counts requests this way, and not in a sliding window.
    ///
    /// ```
    /// # use tollgate_limiter::{Algorithm, Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).algorithm(Algorithm::SlidingLog);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Divides a sliding window into this many parts, from 1 to 100. More are more exact.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?).buckets(10);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn buckets(mut self, count: u32) -> Self {
        self.buckets = Some(count);
        self
    }

    /// The most units that a token bucket admits at once, or that a leaky bucket delays. A token
    /// bucket has the units of its limit without it.
    ///
    /// ```
    /// # use tollgate_limiter::{Algorithm, Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?)
    ///     .algorithm(Algorithm::TokenBucket)
    ///     .burst(20);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn burst(mut self, units: u64) -> Self {
        self.burst = Some(units);
        self
    }

    /// The longest time for which a leaky bucket delays a request, at most five minutes. A
    /// leaky bucket needs it.
    ///
    /// ```
    /// # use tollgate_limiter::{Algorithm, Key, Policy};
    /// # use std::time::Duration;
    /// let policy = Policy::new("p", Key::Ip, "10/s".parse()?)
    ///     .algorithm(Algorithm::LeakyBucket)
    ///     .max_delay(Duration::from_secs(2));
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = Some(delay);
        self
    }

    /// Aligns a fixed window of an hour, a day or a week to the calendar of this time zone. It needs
    /// the feature `calendar`.
    ///
    /// ```
    /// # use tollgate_limiter::{Algorithm, Key, Policy};
    /// let policy = Policy::new("p", Key::User, "1000/day".parse()?)
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .calendar("Europe/Berlin");
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[cfg(feature = "calendar")]
    #[must_use]
    pub fn calendar(mut self, zone: impl Into<String>) -> Self {
        self.calendar = Some(zone.into());
        self
    }

    /// The units that a request costs. Without it, one.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let searches = Policy::new("searches", Key::Ip, "100/minute".parse()?).cost(4);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn cost(mut self, units: u64) -> Self {
        self.cost = Cost::Fixed(units);
        self
    }

    /// The cost is in this header field, and at most `max`. Only trusted proxies can set it. It
    /// is `default` for other requests.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?).cost_header("x-cost", 1, 50);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn cost_header(mut self, name: impl Into<String>, default: u64, max: u64) -> Self {
        self.cost = Cost::Header { name: name.into(), default, max };
        self
    }

    /// Charges `units` at first, which the response corrects. More is charged even beyond the
    /// limit, and less is given back.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy, Settle};
    /// let policy = Policy::new("p", Key::ApiKey, "100k/minute".parse()?)
    ///     .reserve(2000, Settle::Header("x-tokens-used".into()));
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn reserve(mut self, units: u64, settle: Settle) -> Self {
        self.cost = Cost::Reserve { units, settle };
        self
    }

    /// Counts only requests whose response has one of these statuses. Others get their cost
    /// back. A request whose client has left before the response is counted: otherwise a client
    /// could avoid the limit by leaving.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// # use http::StatusCode;
    /// let wrong_passwords = Policy::new("wrong-passwords", Key::Ip, "5/minute".parse()?)
    ///     .count_only([StatusCode::UNAUTHORIZED]);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn count_only(mut self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.count = statuses.into_iter().collect();
        self
    }

    /// How exact it counts in a store that several processes share. Without it,
    /// [`Exact`](Counting::Exact).
    ///
    /// ```
    /// # use tollgate_limiter::{Counting, Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "1M/hour".parse()?).counting(Counting::WriteBack);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.consistency.mode = match counting {
            Counting::Exact => StoreMode::Exact,
            Counting::Leased => StoreMode::Leased,
            Counting::WriteBack => StoreMode::WriteBack,
        };
        self
    }
}
