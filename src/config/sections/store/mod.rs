//! `store`: where the counters are kept.

pub mod password_command;
pub mod redis;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Either, Field, Spanned};
use crate::config::model::StoreSettings;
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;
use redis::RawRedis;

/// From a test to a hundred gigabytes of memory.
const MAX_KEYS: RangeInclusive<u64> = 1..=2_000_000_000;

/// Where the counters are kept.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "store", default)]
#[schemars(deny_unknown_fields)]
pub struct RawStore {
    /// The counters in the memory of this process. With Redis, they count while Redis is not
    /// available.
    memory: Field<RawMemory>,
    /// The counters in Redis, which several nodes share: its URL, or all settings.
    #[schemars(extend("x-default" = "the counters are in memory only"))]
    #[schemars(with = "Field<Either<String, RawRedis>>", example = serde_json::json!({ "url": "redis://127.0.0.1:6379/0" }))]
    redis: Field<RawRedis>,
    /// The file for API keys. With Redis they are kept there instead, without a file.
    #[schemars(extend("x-default" = "none"))]
    keys: Field<RawKeysFile>,
    /// The file for the limits of single keys. With Redis they are kept there instead, without a
    /// file.
    #[schemars(extend("x-default" = "none"))]
    overrides: Field<RawOverrides>,
}

/// The counters in the memory of this process.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "memory", default)]
#[schemars(deny_unknown_fields)]
struct RawMemory {
    /// The most counters that are kept at once.
    #[schemars(extend("default" = 1000000))]
    #[schemars(example = 5_000_000)]
    #[schemars(range(min = *MAX_KEYS.start(), max = *MAX_KEYS.end()))]
    max_keys: Field<u64>,
}

/// The file for the limits of single keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "overrides", default)]
#[schemars(deny_unknown_fields, extend("required" = ["path"]))]
pub struct RawOverrides {
    /// The path of the file. The gateway creates the file if it does not exist.
    #[schemars(example = &"overrides.redb")]
    path: Field<String>,
}

/// The file for API keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "store keys", default)]
#[schemars(deny_unknown_fields, extend("required" = ["path"]))]
pub struct RawKeysFile {
    /// The path of the file. The gateway creates the file if it does not exist.
    #[schemars(example = &"keys.redb")]
    path: Field<String>,
}

impl RawStore {
    pub fn compile(&self, cx: &Context<'_>) -> StoreSettings {
        let mut store = StoreSettings::default();
        let memory = self.memory.value();
        let max_keys = memory.and_then(|it| cx.number(&it.max_keys, "max_keys", MAX_KEYS));
        store.max_keys = max_keys.unwrap_or(store.max_keys);
        store.overrides = self.overrides.given().and_then(|file| self.overrides_file(file, cx));
        store.keys = self.keys.given().and_then(|file| self.keys_file(file, cx));
        store.redis = self.redis.given().and_then(|redis| redis.value.compile(redis.span, cx));
        store.password_command = self.redis.value().and_then(|redis| redis.password_command(cx));
        store
    }

    fn overrides_file(&self, file: &Spanned<RawOverrides>, cx: &Context<'_>) -> Option<PathBuf> {
        let advice = "like overrides: { path: overrides.redb }";
        if !self.redis.is_absent() {
            let message = "this file has no effect: with Redis, overrides are kept there";
            cx.error(file.span, message, "leave it out");
        }
        let message = "the overrides have no \"path\"";
        let path = cx.required(&file.value.path, file.span, message, advice)?;
        if path.is_empty() {
            cx.error(file.span, "the \"path\" of the overrides is empty", advice);
        }
        Some(cx.around.directory.join(path))
    }

    fn keys_file(&self, file: &Spanned<RawKeysFile>, cx: &Context<'_>) -> Option<PathBuf> {
        let advice = "like keys: { path: keys.redb }";
        if !self.redis.is_absent() {
            let message = "this file has no effect: with Redis, API keys are kept there";
            cx.error(file.span, message, "leave it out");
        }
        let path = cx.required(&file.value.path, file.span, "the keys have no \"path\"", advice)?;
        if path.is_empty() {
            cx.error(file.span, "the \"path\" of the keys is empty", advice);
        }
        Some(cx.around.directory.join(path))
    }

    /// Whether nodes share the store, or were meant to.
    pub fn is_shared(&self) -> bool {
        !self.redis.is_absent()
    }

    /// Whether the limits of single keys can be kept anywhere.
    pub fn keeps_overrides(&self) -> bool {
        self.is_shared() || !self.overrides.is_absent()
    }

    /// Where the section `overrides` is written, if it is.
    pub fn overrides_span(&self) -> Option<TextSpan> {
        self.overrides.span()
    }
}
