//! The forms of keys and of their limits in answers and bodies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admin::words::{self, OrUnlimited, Scope, SourceWord};
use crate::engine::Wait;

/// A key of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct About {
    pub policy: String,
    /// The id of the key, as in `top` and in logs.
    pub key_id: String,
}

/// The limit of a key, and what its counters say. Without a limit there are no counters.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub struct ShownKey {
    #[serde(flatten)]
    pub key: About,
    /// The whole key, with `reveal=true`. It is absent if this node has not kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_key: Option<String>,
    /// Present if the limit of this key alone cannot be read now.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub own: Option<Unknown>,
    /// The API key whose limit, or whose team's limit, was looked at; or `unknown`, if the requests
    /// of the client may have a key with another limit. It is absent if no key has a limit here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<ApiKey>,
    pub scope: Scope,
    /// The units that the window admits.
    pub limit: OrUnlimited<u64>,
    #[serde(flatten)]
    pub counters: Option<Counters>,
}

/// What the counters of a key say.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Counters {
    /// The time of the store (RFC 3339).
    pub at: String,
    pub source: SourceWord,
    pub algorithm: &'static str,
    /// The length of the window in milliseconds; 0 if there is none.
    pub window_ms: u64,
    /// What a unit is, if it is money, like `usd-6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// `policy`, `patch`, `plan NAME`, `team`, `key` or `override`.
    pub limit_from: String,
    /// More than `limit`, if a soft limit admits more.
    pub used: u64,
    pub remaining: u64,
    /// Null: one unit would be admitted. During a ban, it is the longer of two waits: until the ban
    /// ends, and until the limit has room.
    pub retry_after_ms: Option<Wait>,
    /// When the counter is as at the beginning.
    pub reset_after_ms: u64,
    /// Null: there is no ban.
    pub banned_for_ms: Option<Wait>,
}

/// The id of an API key, or the word `unknown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum ApiKey {
    Id(String),
    Unknown(Unknown),
}

/// The word for what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Unknown {
    Unknown,
}

/// The counters of a key are forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reset {
    #[serde(flatten)]
    pub key: About,
    /// The API key whose counter is forgotten, too, if its limit has another window; or `unknown`, if
    /// a key of the store may have such a counter, which is not forgotten then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<ApiKey>,
    pub scope: Scope,
    /// Always true.
    pub reset: bool,
}

/// The limit of a single key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Override")]
pub struct ShownOverride {
    #[serde(flatten)]
    pub key: About,
    /// The limit of this key alone, as in the file, or `unlimited`. Null: it has none.
    #[serde(rename = "override")]
    pub own: Option<String>,
    pub policy_limit: OrUnlimited<words::Limit>,
    /// Why the limit of this key alone is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_because: Option<String>,
}

/// The limit that a single key is to have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLimit {
    /// As in the file, such as `500/minute`; units alone have the window of the policy; an
    /// amount of money; or `unlimited`.
    pub limit: String,
}
