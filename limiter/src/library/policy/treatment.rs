//! What a policy does beyond its limit, and which requests it exempts.

use std::time::Duration;

use http::Method;
use tollgate_core::policy::Mode;
use tollgate_core::policy::spec::{Field, KeyPlace, PenaltySpec, PlanSpec, PlansSpec, Written};

use super::Policy;
use crate::library::values::{header, network};
use crate::library::{Limit, OnMissingKey, OnStoreFailure, Plans};

impl Policy {
    /// Admits so many percent more than the limit, and marks those requests.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?).soft(10);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn soft(mut self, percent: u8) -> Self {
        self.spec.soft = Written::Given(percent);
        self
    }

    /// Counts and reports, and refuses nothing.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let trial = Policy::new("trial", Key::Ip, "10/minute".parse()?).shadow();
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.spec.mode = Mode::Shadow;
        self
    }

    /// Other limits for some clients.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Plans, Policy};
    /// let plans = Plans::by(Key::Jwt("plan".into())).limit("pro", "1000/minute".parse()?);
    /// let policy = Policy::new("p", Key::User, "100/minute".parse()?).plans(plans);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn plans(mut self, plans: Plans) -> Self {
        let from = self.read(Field::PlansFrom(KeyPlace::default()), plans.from.compile());
        let limits = plans.limits.into_iter().map(|(name, limit)| PlanSpec {
            name,
            limit: Written::Given(limit.map(|limit| limit.0)),
        });
        let limits = Written::Given(limits.collect());
        self.spec.plans = Written::Given(PlansSpec { from, limits });
        self
    }

    /// Bans keys that are refused too often: so many refusals lead to a ban of this length. Each
    /// further ban lasts twice as long, but not longer than a day, or as
    /// [`max_ban`](Self::max_ban) says. The layer answers a banned key at once: the gateway's `delay`
    /// for such responses is not in this library.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// # use std::time::Duration;
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?)
    ///     .penalty("10/minute".parse()?, Duration::from_secs(300));
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn penalty(mut self, after: Limit, ban: Duration) -> Self {
        let after = Written::Given(after.0);
        let ban = Written::Given(ban.into());
        self.spec.penalty = Written::Given(PenaltySpec { after, ban, ..self.penalty_so_far() });
        self
    }

    /// The length of the longest ban of a [`penalty`](Self::penalty). Without it, a day, or the
    /// first ban if that is longer.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// # use std::time::Duration;
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?)
    ///     .penalty("10/minute".parse()?, Duration::from_secs(300))
    ///     .max_ban(Duration::from_secs(3600));
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn max_ban(mut self, longest: Duration) -> Self {
        let max_ban = Written::Given(longest.into());
        self.spec.penalty = Written::Given(PenaltySpec { max_ban, ..self.penalty_so_far() });
        self
    }

    fn penalty_so_far(&self) -> PenaltySpec {
        self.spec.penalty.given().cloned().unwrap_or_default()
    }

    /// Counts preflights of browsers like other requests. Without it, they are counted by
    /// address, under ten times the limit.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?).count_preflights();
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn count_preflights(mut self) -> Self {
        self.spec.counts_preflights = true;
        self
    }

    /// Single keys may have limits of their own, which `tollgate override` sets. It needs the
    /// feature `redis` and a store in Redis.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::User, "100/minute".parse()?).overrides();
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn overrides(mut self) -> Self {
        self.spec.overrides = true;
        self
    }

    /// What happens to requests while the store is not available. Without it,
    /// [`Local`](OnStoreFailure::Local).
    ///
    /// ```
    /// # use tollgate_limiter::{Key, OnStoreFailure, Policy};
    /// let policy = Policy::new("p", Key::Ip, "100/minute".parse()?)
    ///     .on_store_failure(OnStoreFailure::Allow);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn on_store_failure(mut self, then: OnStoreFailure) -> Self {
        self.spec.on_store_failure = Written::Given(then);
        self
    }

    /// What happens to a request without the key. Without it, [`Ip`](OnMissingKey::Ip).
    ///
    /// ```
    /// # use tollgate_limiter::{Key, OnMissingKey, Policy};
    /// let policy = Policy::new("p", Key::ApiKey, "100/minute".parse()?)
    ///     .on_missing_key(OnMissingKey::Skip);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn on_missing_key(mut self, then: OnMissingKey) -> Self {
        self.spec.missing_key = Written::Given(then);
        self
    }

    /// Exempts clients with addresses in this network.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).exempt_network("10.0.0.0/8");
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn exempt_network(mut self, network: impl Into<String>) -> Self {
        match self::network(&network.into()) {
            Ok(network) => self.spec.exempt.ips.push(network),
            Err(why) => self.unread.push((Field::Exempt, why)),
        }
        self
    }

    /// Exempts requests with this method.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).exempt_method(http::Method::HEAD);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn exempt_method(mut self, method: Method) -> Self {
        self.spec.exempt.methods.push(method);
        self
    }

    /// Exempts requests with this value of this header field. The value acts as a secret.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).exempt_header("x-internal", "s3cret");
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn exempt_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        match header(&name.into(), &value.into()) {
            Ok(header) => self.spec.exempt.headers.push(header),
            Err(why) => self.unread.push((Field::Exempt, why)),
        }
        self
    }
}
