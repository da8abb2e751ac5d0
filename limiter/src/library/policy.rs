//! A policy, as an application writes it.

mod treatment;

use std::time::Duration;

use http::StatusCode;
use tollgate_core::policy::Left;
use tollgate_core::policy::spec::{
    CostSpec, CountSpec, Field, KeyPlace, PolicySpec, ReserveSpec, Written,
};

use super::values::field_name;
use super::{Algorithm, Counting, Key, Limit, Settle};

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
    pub(super) spec: PolicySpec,
    /// What cannot be read, and so is not in the specification.
    pub(super) unread: Vec<(Field, String)>,
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
        let mut policy = Self::unlimited(name, key);
        policy.spec.limit = Written::Given(Some(limit.0));
        policy
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
        let limit = Written::Given(None);
        let spec = PolicySpec { name: name.into(), limit, ..PolicySpec::default() };
        let mut policy = Self { spec, unread: Vec::new() };
        policy.spec.key = policy.read(Field::Key(KeyPlace::default()), key.compile());
        policy
    }

    /// The value of a text. If it is wrong, the fault is kept until the limiter is built. Faults of
    /// a value that it replaces are dropped.
    fn read<T>(&mut self, field: Field, value: Result<T, impl ToString>) -> Written<T> {
        let whole = |field: &Field| field.path().split('.').next();
        self.unread.retain(|(before, _)| whole(before) != whole(&field));
        match value {
            Ok(value) => Written::Given(value),
            Err(why) => {
                self.unread.push((field, why.to_string()));
                Written::Unreadable
            }
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
        self.spec.algorithm = Written::Given(algorithm);
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
        self.spec.buckets = Written::Given(count.into());
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
        self.spec.burst = Written::Given(units);
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
        self.spec.max_delay = Written::Given(delay.into());
        self
    }

    /// Aligns a fixed window of an hour, a day, a week or a month to the calendar of this time zone.
    /// Months are those of UTC without it. It needs the feature `calendar`.
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
        self.spec.calendar = Written::Given(zone.into());
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
        self.spec.cost = self.read(Field::Cost, Ok::<_, String>(CostSpec::Fixed(units)));
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
        let [default, max] = [default, max].map(Written::Given);
        let name = field_name(&name.into());
        let cost = name.map(|name| CostSpec::Header { name, default, max });
        self.spec.cost = self.read(Field::Cost, cost);
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
        let settle = self.read(Field::Settle, settle.compile());
        let units = Written::Given(ReserveSpec::Units(units));
        self.spec.cost = Written::Given(CostSpec::Reserve { units, settle, asks_usage: false });
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
        let statuses = statuses.into_iter().map(|it| Written::Given(it.as_u16().into()));
        let statuses = Written::Given(statuses.collect());
        self.spec.count = Written::Given(CountSpec::Statuses { statuses, left: Left::default() });
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
        self.spec.store_mode = Written::Given(counting);
        self
    }
}
