//! Known API keys.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::api_keys::{KeyForm, KeyRecord, KeyTable, PREFIX};
use tollgate_core::policy::KeySettings;
use tollgate_core::time::Timestamp;

/// The API keys that are known. Of each, only the hash of its text is needed.
///
/// With them, [`Key::ApiKey`](crate::Key::ApiKey) is the id of a known key, so both secrets of a
/// key count as one client. A key that is not known, or not valid now, is a missing key.
///
/// The function `tollgate::embedded::keys` reads them from the file of a gateway.
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
    table: Arc<KeyTable>,
    /// What is wrong with a key.
    fault: Option<String>,
}

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
        Self { prefix: PREFIX.to_owned(), table: Arc::new(KeyTable::new(records, [])), fault }
    }

    /// Keys of a gateway, whose texts begin with `prefix`. Not part of the stable interface.
    #[doc(hidden)]
    pub fn of_table(prefix: &str, table: Arc<KeyTable>) -> Self {
        Self { prefix: prefix.to_owned(), table, fault: None }
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
        Ok(KeySettings {
            file: None,
            form: KeyForm::new(&self.prefix).map_err(|error| error.to_string())?,
            table: Arc::clone(&self.table),
            foreign: false,
            forward: true,
            identity_headers: Vec::new(),
            is_shadow: false,
            in_store: false,
        })
    }
}

/// Prints how many keys there are.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.table.len()).finish()
    }
}
