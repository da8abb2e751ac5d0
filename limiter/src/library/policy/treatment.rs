//! What a policy does beyond its limit, and which requests it exempts.

use http::Method;
use tollgate_core::consistency::OnFailure;
use tollgate_core::policy::{MissingKey, Mode};

use super::{Exemption, Policy};
use crate::library::{OnMissingKey, OnStoreFailure, Plans};

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
        self.soft_percent = percent;
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
        self.mode = Mode::Shadow;
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
        self.plans = Some(plans);
        self
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
        self.counts_preflights = true;
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
        self.overrides = true;
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
        self.consistency.on_failure = match then {
            OnStoreFailure::Local => OnFailure::Local,
            OnStoreFailure::Allow => OnFailure::Allow,
            OnStoreFailure::Deny => OnFailure::Deny,
        };
        self
    }

    /// What happens to a request without the key. Without it, [`UseIp`](OnMissingKey::UseIp).
    ///
    /// ```
    /// # use tollgate_limiter::{Key, OnMissingKey, Policy};
    /// let policy = Policy::new("p", Key::ApiKey, "100/minute".parse()?)
    ///     .on_missing_key(OnMissingKey::Skip);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn on_missing_key(mut self, then: OnMissingKey) -> Self {
        self.missing_key = match then {
            OnMissingKey::UseIp => MissingKey::Ip,
            OnMissingKey::Skip => MissingKey::Skip,
            OnMissingKey::Deny => MissingKey::Deny,
            OnMissingKey::Unauthorized => MissingKey::Unauthorized,
        };
        self
    }

    fn exempting(mut self, exemption: Exemption) -> Self {
        self.exempt.push(exemption);
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
    pub fn exempt_network(self, network: impl Into<String>) -> Self {
        self.exempting(Exemption::Network(network.into()))
    }

    /// Exempts requests with this method.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).exempt_method(http::Method::HEAD);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn exempt_method(self, method: Method) -> Self {
        self.exempting(Exemption::Method(method))
    }

    /// Exempts requests with this value of this header field. The value acts as a secret.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Policy};
    /// let policy = Policy::new("p", Key::Ip, "5/s".parse()?).exempt_header("x-internal", "s3cret");
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn exempt_header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.exempting(Exemption::Header(name.into(), value.into()))
    }
}
