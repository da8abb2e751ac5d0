//! Where the counters are.

use std::num::NonZeroUsize;
#[cfg(feature = "redis")]
use std::time::Duration;

#[cfg(feature = "redis")]
use tollgate_core::digest::Secret;
#[cfg(feature = "redis")]
use tollgate_redis::{RedisSettings, UrlError};

/// The keys in memory without another setting.
const MAX_KEYS: usize = 1_000_000;
/// The threads for Redis without another setting.
const LANES: NonZeroUsize = NonZeroUsize::new(1).expect("not zero");
/// No machine has more cores, so a larger number of threads is a mistake. It is the maximum of a
/// gateway's workers.
#[cfg(feature = "redis")]
const MAX_LANES: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");
/// The checks that wait for each of them without another setting.
const MAX_PENDING: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Where the counters are: in the memory of this process, or in Redis.
///
/// ```
/// use tollgate_limiter::{Limiter, Store};
///
/// let limiter = Limiter::builder().store(Store::memory(100_000)).build()?;
/// # Ok::<_, tollgate_limiter::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) max_keys: usize,
    pub(super) lanes: NonZeroUsize,
    pub(super) max_pending: NonZeroUsize,
    #[cfg(feature = "redis")]
    pub(super) redis: Option<RedisSettings>,
}

impl Default for Store {
    fn default() -> Self {
        Self::memory(MAX_KEYS)
    }
}

impl Store {
    /// Counters in the memory of this process, for at most this many keys, at 38 to 50 bytes
    /// each. Beyond that, the keys that have used the least are forgotten. Memory is used when a
    /// key first needs it.
    ///
    /// ```
    /// let store = tollgate_limiter::Store::memory(100_000);
    /// ```
    pub const fn memory(max_keys: usize) -> Self {
        Self {
            max_keys,
            lanes: LANES,
            max_pending: MAX_PENDING,
            #[cfg(feature = "redis")]
            redis: None,
        }
    }

    /// Whether the settings are within their ranges.
    ///
    /// # Errors
    /// What is wrong with them.
    #[cfg(feature = "redis")]
    pub(super) fn check(&self) -> Result<(), String> {
        let Some(redis) = &self.redis else { return Ok(()) };
        let faults = redis.faults();
        let mut faults: Vec<String> =
            faults.iter().map(|it| format!("{} ({})", it.message, it.advice)).collect();
        if self.lanes > MAX_LANES {
            faults.push(format!("there are at most {MAX_LANES} threads"));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// Counters in memory have no settings that could be wrong.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "redis"))]
    pub(super) const fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether other processes can share the counters.
    pub(super) const fn is_shared(&self) -> bool {
        #[cfg(feature = "redis")]
        return self.redis.is_some();
        #[cfg(not(feature = "redis"))]
        false
    }
}

/// A URL of Redis that cannot be used.
///
/// ```
/// let error = tollgate_limiter::Store::redis("http://localhost").unwrap_err();
/// assert!(error.to_string().contains("not a scheme of Redis"));
/// ```
#[cfg(feature = "redis")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct RedisUrlError(#[from] UrlError);

#[cfg(feature = "redis")]
impl Store {
    /// Counters in Redis, which all processes with this URL share: `redis://host:6379/0`,
    /// `rediss://` for TLS, `redis+cluster://host1,host2`,
    /// `redis+sentinel://host1,host2/master/0`, or `redis+unix:///path`. While Redis is away,
    /// each policy does what it [says](crate::Policy::on_store_failure).
    ///
    /// Redis is used on threads of its own, so the application may have any runtime.
    ///
    /// ```
    /// let store = tollgate_limiter::Store::redis("redis://127.0.0.1:6379/0")?;
    /// # Ok::<_, tollgate_limiter::RedisUrlError>(())
    /// ```
    ///
    /// # Errors
    /// If the URL is wrong, or has a user without a password.
    pub fn redis(url: &str) -> Result<Self, RedisUrlError> {
        let settings = RedisSettings::parse_url(url)?;
        if settings.credentials.lack_password() {
            // What is written as the user may be a password.
            let problem = "the user in the URL has no password".to_owned();
            let advice = "write redis://user:password@host, or redis://:password@host without a \
                          user";
            return Err(UrlError { problem, advice }.into());
        }
        Ok(Self::of_redis(settings))
    }

    /// The store of a gateway's settings. Not part of the stable interface.
    #[doc(hidden)]
    pub fn of_settings(max_keys: usize, redis: Option<RedisSettings>) -> Self {
        Self { redis, ..Self::memory(max_keys) }
    }

    fn of_redis(settings: RedisSettings) -> Self {
        Self { redis: Some(settings), ..Self::default() }
    }

    fn changing(mut self, change: impl FnOnce(&mut RedisSettings)) -> Self {
        if let Some(redis) = &mut self.redis {
            change(redis);
        }
        self
    }

    /// The prefix of all keys in Redis: 1 to 64 letters, digits and signs of `-_.:/`. Without it,
    /// `tollgate`, as for gateways.
    ///
    /// ```
    /// # use tollgate_limiter::Store;
    /// let store = Store::redis("redis://127.0.0.1:6379/0")?.prefix("orders");
    /// # Ok::<_, tollgate_limiter::RedisUrlError>(())
    /// ```
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        self.changing(|redis| redis.prefix = prefix.into())
    }

    /// The longest time for which a check waits for Redis, from 1 ms to 10 s. Without it, 20 ms.
    ///
    /// ```
    /// # use tollgate_limiter::Store;
    /// # use std::time::Duration;
    /// let store = Store::redis("redis://127.0.0.1:6379/0")?.timeout(Duration::from_millis(50));
    /// # Ok::<_, tollgate_limiter::RedisUrlError>(())
    /// ```
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.changing(|redis| redis.timeout = timeout)
    }

    /// The secret with which keys are digested, instead of one that the first process makes and
    /// Redis keeps. All processes need the same.
    ///
    /// ```
    /// # use tollgate_limiter::Store;
    /// let store = Store::redis("redis://127.0.0.1:6379/0")?.secret(*b"sixteen bytes it");
    /// # Ok::<_, tollgate_limiter::RedisUrlError>(())
    /// ```
    #[must_use]
    pub fn secret(self, secret: [u8; 16]) -> Self {
        self.changing(|redis| redis.secret = Some(Secret::from_bytes(secret)))
    }

    /// The threads that talk to Redis, at most 1024, and the checks that may wait for each of them.
    /// Without it, one thread and 4096 checks. For checks beyond that, the store counts as not available.
    ///
    /// ```
    /// # use tollgate_limiter::Store;
    /// # use std::num::NonZeroUsize;
    /// let two = NonZeroUsize::new(2).expect("not zero");
    /// let store = Store::redis("redis://127.0.0.1:6379/0")?
    ///     .lanes(two, NonZeroUsize::new(1000).expect("not zero"));
    /// # Ok::<_, tollgate_limiter::RedisUrlError>(())
    /// ```
    #[must_use]
    pub const fn lanes(mut self, threads: NonZeroUsize, max_pending: NonZeroUsize) -> Self {
        self.lanes = threads;
        self.max_pending = max_pending;
        self
    }
}
