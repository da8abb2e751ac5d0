//! `runtime`: the process.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::context::Context;
use crate::config::field::Field;
use crate::config::model::RuntimeSettings;
use crate::config::scalar::{Period, Size, Workers};

const MAX_DRAIN: Duration = Duration::from_secs(86_400);
/// From 1 MiB to 1 TiB.
const BODY_MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// The process.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "runtime", default)]
#[schemars(deny_unknown_fields)]
pub struct RawRuntime {
    /// The number of worker threads.
    #[schemars(extend("x-default" = "auto, which is one for each core"))]
    #[schemars(example = 4)]
    workers: Field<Workers>,
    /// How long requests in progress may take after the signal to stop.
    #[schemars(extend("default" = "30s"))]
    #[schemars(example = &"1m")]
    drain: Field<Period>,
    /// The most memory for the bodies of requests that are read before they are forwarded, because a
    /// policy needs them. Beyond it, such requests get 503.
    #[schemars(extend("default" = "256MiB"))]
    #[schemars(example = &"1GiB")]
    body_memory: Field<Size>,
}

impl RawRuntime {
    pub fn compile(&self, cx: &Context<'_>) -> RuntimeSettings {
        let workers = self.workers.value().and_then(|workers| workers.0);
        let mut runtime = RuntimeSettings { workers, ..RuntimeSettings::default() };
        if let Some(drain) = self.drain.given() {
            if drain.value.0 > MAX_DRAIN {
                cx.error(drain.span, "\"drain\" is out of range", "write at most 1d");
            }
            runtime.drain = drain.value.0;
        }
        if let Some(given) = self.body_memory.given() {
            let bytes = cx.within(given.value.0, given.span, "body_memory", BODY_MEMORY);
            runtime.body_memory = bytes.unwrap_or(runtime.body_memory);
        }
        runtime
    }
}
