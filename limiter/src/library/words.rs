//! The words in which policies are written.

use super::{Key, Limit};

/// How requests are counted. The documentation of limits compares the algorithms.
///
/// ```
/// # use tollgate_limiter::{Algorithm, Key, Policy};
/// let uploads = Policy::new("uploads", Key::User, "5".parse()?).algorithm(Algorithm::Concurrency);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Two counters: one for this window, and the weighted rest of the window before.
    #[default]
    SlidingWindow,
    /// A log of every request in the last window.
    SlidingLog,
    /// One counter, which starts again at the beginning of each window.
    FixedWindow,
    /// A bucket that refills at a steady rate.
    TokenBucket,
    /// A queue that delays requests, so that they go on at even intervals.
    LeakyBucket,
    /// The number of requests that are in progress at the same time.
    Concurrency,
}

/// What a policy does with requests while the store is not available.
///
/// ```
/// # use tollgate_limiter::{Key, OnStoreFailure, Policy};
/// let logins = Policy::new("logins", Key::Ip, "5/minute".parse()?)
///     .on_store_failure(OnStoreFailure::Deny);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// This process decides by the counts that it knows, and by its share of the limit.
    Local,
    /// They are admitted, and not counted.
    Allow,
    /// They are refused.
    Deny,
}

/// How exact a policy counts in a store that several processes share.
///
/// ```
/// # use tollgate_limiter::{Counting, Key, Policy};
/// let reads = Policy::new("reads", Key::ApiKey, "1M/hour".parse()?).counting(Counting::Leased);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counting {
    /// Each admitted request is counted before it goes on.
    Exact,
    /// Processes lease units in small numbers. At most 2 % more than the limit is admitted.
    Leased,
    /// Each process counts on its own, and sends its counts regularly.
    WriteBack,
}

/// What a policy does with a request that lacks its key.
///
/// ```
/// # use tollgate_limiter::{Key, OnMissingKey, Policy};
/// let keyed = Policy::new("keyed", Key::ApiKey, "100/minute".parse()?)
///     .on_missing_key(OnMissingKey::Deny);
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissingKey {
    /// It is counted by the client's address.
    UseIp,
    /// The policy does not count it.
    Skip,
    /// It is refused with 403.
    Deny,
    /// It is refused with 401, which asks the client for a bearer token. Only for keys that a
    /// token can give, such as [`Key::User`](crate::Key::User) with verified tokens, and
    /// [`Key::ApiKey`](crate::Key::ApiKey).
    Unauthorized,
}

/// Where a response says what its request cost.
///
/// ```
/// # use tollgate_limiter::{Key, Policy, Settle};
/// let tokens = Policy::new("tokens", Key::ApiKey, "100k/minute".parse()?)
///     .reserve(2000, Settle::Json("/usage/total_tokens".into()));
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// In the response field with this name.
    Header(String),
    /// At this place (RFC 6901) in its body, a JSON document.
    Json(String),
    /// At this place in the last event of its body that has it. The body consists of
    /// server-sent events with JSON.
    SseJson(String),
    /// The length of its body: one unit for each started piece of so many bytes.
    ResponseBytes(u64),
}

/// Other limits for some clients.
///
/// ```
/// use tollgate_limiter::{Key, Plans};
///
/// let plans = Plans::by(Key::Header("x-plan".into()))
///     .limit("pro", "1000/minute".parse()?)
///     .unlimited("internal");
/// # Ok::<_, tollgate_limiter::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plans {
    pub(super) from: Key,
    pub(super) limits: Vec<(String, Option<Limit>)>,
}

impl Plans {
    /// Plans whose name is the value of `key`. A request with any other value has the limit of
    /// the policy. Clients can set a header field themselves, unless a proxy that is
    /// [trusted](crate::Client::trusted_proxy) sets it.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Plans};
    /// let plans = Plans::by(Key::Jwt("plan".into()));
    /// ```
    pub const fn by(key: Key) -> Self {
        Self { from: key, limits: Vec::new() }
    }

    /// Adds a plan. Its limit has the window of the policy's limit, and the same counters.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Plans};
    /// let plans = Plans::by(Key::Jwt("plan".into())).limit("pro", "1000/minute".parse()?);
    /// # Ok::<_, tollgate_limiter::LimitError>(())
    /// ```
    #[must_use]
    pub fn limit(mut self, name: impl Into<String>, limit: Limit) -> Self {
        self.limits.push((name.into(), Some(limit)));
        self
    }

    /// Adds a plan whose clients have no limit.
    ///
    /// ```
    /// # use tollgate_limiter::{Key, Plans};
    /// let plans = Plans::by(Key::Jwt("plan".into())).unlimited("internal");
    /// ```
    #[must_use]
    pub fn unlimited(mut self, name: impl Into<String>) -> Self {
        self.limits.push((name.into(), None));
        self
    }
}
