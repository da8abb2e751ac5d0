//! Known API keys.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "redis")]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::api_keys::{KeyForm, KeyRecord, KeyTable, PREFIX};
use tollgate_core::policy::KeySettings;
#[cfg(feature = "redis")]
use tollgate_core::store::keys::{OnFailure, SharedKeys};
#[cfg(feature = "redis")]
use tollgate_core::time::Span;
use tollgate_core::time::Timestamp;

use super::key_source::{HeldKeys, KeySource};

/// The API keys that are known. Of each, only the hash of its text is needed.
///
/// With them, [`Key::ApiKey`](crate::Key::ApiKey) is the id of a known key, so both secrets of a
/// key count as one client. A key that is not known, or not valid now, is a missing key.
///
/// The function `tollgate::embedded::keys` reads them from the file of a gateway. Keys that gateways
/// keep in Redis are known by [`Keys::in_redis`]. Keys that change are [`Keys::replaceable`].
///
/// ```
/// use tollgate_limiter::{ApiKey, Client, Keys};
///
/// // Both are in the file that `tollgate key create --file keys.yaml` writes.
/// let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
/// let key = ApiKey::new("03d4jt3198h8", hash)?.team("acme").plan("pro");
/// let client = Client::new().keys(Keys::new([key]));
/// # Ok::<_, tollgate_limiter::ApiKeyError>(())
/// ```
#[derive(Clone)]
pub struct Keys {
    prefix: String,
    source: Source,
    /// What is wrong with a key.
    fault: Option<String>,
}

/// Where keys are known.
#[derive(Clone)]
enum Source {
    Fixed(Arc<KeyTable>),
    Held(HeldKeys),
    #[cfg(feature = "redis")]
    Redis {
        trusted_for: Duration,
    },
}

/// Replaces the keys of a limiter while it runs. [`Keys::replaceable`] makes it.
///
/// ```
/// use tollgate_limiter::{Client, Keys, Limiter};
///
/// let (keys, handle) = Keys::new([]).replaceable();
/// let limiter = Limiter::builder().client(Client::new().keys(keys)).build()?;
/// handle.replace(&Keys::new([]))?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ReplaceableKeys(HeldKeys);

/// A known API key.
///
/// ```
/// use tollgate_limiter::ApiKey;
///
/// let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
/// let key = ApiKey::new("03d4jt3198h8", hash)?.label("env", "prod");
/// # Ok::<_, tollgate_limiter::ApiKeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ApiKey(KeyRecord);

/// A text that is not the id of a key, or not the hash of one.
///
/// ```
/// use tollgate_limiter::ApiKey;
///
/// let error = ApiKey::new("03d4jt3198h8", "tg_03d4jt3198h8_secret").unwrap_err();
/// assert!(error.to_string().contains("64"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiKeyError(String);

impl ApiKey {
    /// The key with this id. `sha256` is the hash of its text in hexadecimal digits, which
    /// `tollgate key hash` prints.
    ///
    /// ```
    /// # use tollgate_limiter::ApiKey;
    /// assert!(ApiKey::new("no id", "no hash").is_err());
    /// ```
    ///
    /// # Errors
    /// If one of them has another form.
    pub fn new(id: &str, sha256: &str) -> Result<Self, ApiKeyError> {
        let id = id.parse().map_err(|error| ApiKeyError(format!("{error}")))?;
        let digest = sha256.parse().map_err(|error| ApiKeyError(format!("{error}")))?;
        Ok(Self(KeyRecord::new(id, digest)))
    }

    /// The team of the key: the value of `api_key:team`.
    ///
    /// ```
    /// # use tollgate_limiter::ApiKey;
    /// # let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    /// let key = ApiKey::new("03d4jt3198h8", hash)?.team("acme");
    /// # Ok::<_, tollgate_limiter::ApiKeyError>(())
    /// ```
    #[must_use]
    pub fn team(mut self, name: &str) -> Self {
        self.0.team = Some(name.into());
        self
    }

    /// The plan of the key: the value of `api_key:plan`.
    ///
    /// ```
    /// # use tollgate_limiter::ApiKey;
    /// # let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    /// let key = ApiKey::new("03d4jt3198h8", hash)?.plan("pro");
    /// # Ok::<_, tollgate_limiter::ApiKeyError>(())
    /// ```
    #[must_use]
    pub fn plan(mut self, name: &str) -> Self {
        self.0.plan = Some(name.into());
        self
    }

    /// A label of the key: the value of `api_key:NAME`.
    ///
    /// ```
    /// # use tollgate_limiter::ApiKey;
    /// # let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    /// let key = ApiKey::new("03d4jt3198h8", hash)?.label("env", "prod");
    /// # Ok::<_, tollgate_limiter::ApiKeyError>(())
    /// ```
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.0.labels.push((name.into(), value.into()));
        self
    }

    /// From when on the key is not accepted any more.
    ///
    /// ```
    /// # use tollgate_limiter::ApiKey;
    /// # let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    /// let long_ago = std::time::SystemTime::UNIX_EPOCH;
    /// let key = ApiKey::new("03d4jt3198h8", hash)?.expires(long_ago);
    /// # Ok::<_, tollgate_limiter::ApiKeyError>(())
    /// ```
    #[must_use]
    pub fn expires(mut self, at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        self.0.expires = Some(Timestamp::from_micros(us));
        self
    }
}

impl Keys {
    /// These keys, whose texts begin with `tg_`. Of several with one id, the last one counts.
    ///
    /// ```
    /// let keys = tollgate_limiter::Keys::new([]);
    /// ```
    pub fn new(keys: impl IntoIterator<Item = ApiKey>) -> Self {
        let records: Vec<KeyRecord> = keys.into_iter().map(|ApiKey(record)| record).collect();
        let fault = records.iter().find_map(|record| {
            let fault = record.faults().into_iter().next()?;
            Some(format!("the API key {}: {}", record.id, fault.message))
        });
        let source = Source::Fixed(Arc::new(KeyTable::new(records, [])));
        Self { prefix: PREFIX.to_owned(), source, fault }
    }

    /// The keys that gateways keep in Redis, in the [store](crate::Store::redis) of the limiter and
    /// under its prefix: those of `tollgate key create` and of the admin API. A change takes effect
    /// within two seconds. A known key costs no call to Redis.
    ///
    /// While Redis is away, a known key is trusted for ten minutes after it was last certain, and
    /// for a key that is not known [`Identity::Away`](crate::Identity::Away) is the answer. See
    /// [`trusted_for`](Self::trusted_for).
    ///
    /// ```
    /// use tollgate_limiter::{Client, Keys, Limiter, Store};
    ///
    /// let limiter = Limiter::builder()
    ///     .store(Store::redis("redis://127.0.0.1:6379/0")?)
    ///     .client(Client::new().keys(Keys::in_redis()))
    ///     .build()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "redis")]
    pub fn in_redis() -> Self {
        let source = Source::Redis { trusted_for: Duration::from_secs(600) };
        Self { prefix: PREFIX.to_owned(), source, fault: None }
    }

    /// How long a known key is trusted while Redis is away, instead of ten minutes. Zero: not at
    /// all. It has an effect on keys [in Redis](Self::in_redis) only.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let keys = tollgate_limiter::Keys::in_redis().trusted_for(Duration::from_secs(60));
    /// ```
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn trusted_for(mut self, time: Duration) -> Self {
        if let Source::Redis { trusted_for } = &mut self.source {
            *trusted_for = time;
        }
        self
    }

    /// These keys, and a handle that replaces them while the limiter runs, for example when their
    /// file has changed. Keys in Redis change by themselves: their handle has no effect.
    ///
    /// ```
    /// use tollgate_limiter::{ApiKey, Client, Keys, Limiter};
    ///
    /// let (keys, handle) = Keys::new([]).replaceable();
    /// let limiter = Limiter::builder().client(Client::new().keys(keys)).build()?;
    /// let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    /// handle.replace(&Keys::new([ApiKey::new("03d4jt3198h8", hash)?]))?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn replaceable(self) -> (Self, ReplaceableKeys) {
        let (held, source) = match self.source {
            Source::Fixed(table) => {
                let held = HeldKeys::new(table);
                (held.clone(), Source::Held(held))
            }
            Source::Held(held) => (held.clone(), Source::Held(held)),
            #[cfg(feature = "redis")]
            source @ Source::Redis { .. } => {
                (HeldKeys::new(Arc::new(KeyTable::new(Vec::new(), []))), source)
            }
        };
        (Self { source, ..self }, ReplaceableKeys(held))
    }

    /// Keys of a gateway, whose texts begin with `prefix`. Not part of the stable interface.
    #[doc(hidden)]
    pub fn of_table(prefix: &str, table: Arc<KeyTable>) -> Self {
        Self { prefix: prefix.to_owned(), source: Source::Fixed(table), fault: None }
    }

    /// What the texts of keys begin with, before the first `_`. Without it, `tg`.
    ///
    /// ```
    /// let keys = tollgate_limiter::Keys::new([]).prefix("acme");
    /// ```
    #[must_use]
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// The settings, or what is wrong with them.
    pub(super) fn settings(&self) -> Result<KeySettings, String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        // Keys of other sources are looked up for each request.
        let (table, in_store) = match &self.source {
            Source::Fixed(table) => (Arc::clone(table), false),
            _ => (Arc::new(KeyTable::new(Vec::new(), [])), true),
        };
        Ok(KeySettings {
            file: None,
            form: KeyForm::new(&self.prefix).map_err(|error| error.to_string())?,
            table,
            foreign: false,
            forward: true,
            identity_headers: Vec::new(),
            is_shadow: false,
            in_store,
        })
    }

    /// Where they are looked up.
    pub(super) fn source(&self) -> KeySource {
        match &self.source {
            Source::Fixed(_) => KeySource::Settings,
            Source::Held(held) => KeySource::Held(held.clone()),
            #[cfg(feature = "redis")]
            Source::Redis { trusted_for } => {
                let on_failure = match Span::from(*trusted_for) {
                    Span::ZERO => OnFailure::Deny,
                    time => OnFailure::Local(time),
                };
                KeySource::Redis(SharedKeys::in_store(on_failure))
            }
        }
    }
}

impl ReplaceableKeys {
    /// From now on these keys are known, and no others. What their texts begin with stays as it
    /// was when the limiter was built.
    ///
    /// ```
    /// # use tollgate_limiter::Keys;
    /// let (_keys, handle) = Keys::new([]).replaceable();
    /// handle.replace(&Keys::new([]))?;
    /// # Ok::<_, tollgate_limiter::ApiKeyError>(())
    /// ```
    ///
    /// # Errors
    /// If something is wrong with a key, or the keys are in Redis. Then those before stay.
    pub fn replace(&self, keys: &Keys) -> Result<(), ApiKeyError> {
        if let Some(fault) = &keys.fault {
            return Err(ApiKeyError(fault.clone()));
        }
        let table = match &keys.source {
            Source::Fixed(table) => Arc::clone(table),
            Source::Held(other) => other.table(),
            #[cfg(feature = "redis")]
            Source::Redis { .. } => {
                return Err(ApiKeyError("keys in Redis cannot replace other keys".into()));
            }
        };
        self.0.replace(table);
        Ok(())
    }
}

/// Prints how many keys there are.
impl fmt::Debug for ReplaceableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplaceableKeys").field(&self.0.table().len()).finish()
    }
}

/// Prints how many keys there are, or where they are.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("Keys");
        match &self.source {
            Source::Fixed(table) => shown.field(&table.len()),
            Source::Held(held) => shown.field(&held.table().len()),
            #[cfg(feature = "redis")]
            Source::Redis { .. } => shown.field(&"Redis"),
        };
        shown.finish()
    }
}
