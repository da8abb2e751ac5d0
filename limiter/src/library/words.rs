//! Parts of a policy that an application writes: plans, and where a response has its cost.

use super::{Key, Limit};

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
