//! `runtime`: the process.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::context::Context;
use crate::config::field::Field;
use crate::config::model::RuntimeSettings;
use crate::config::scalar::{Period, Workers};

const MAX_DRAIN: Duration = Duration::from_secs(86_400);

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
        runtime
    }
}
