//! `headers`, `telemetry` and `runtime`.

use std::time::Duration;

use super::Compiler;
use crate::config::field::Either;
use crate::config::model::RuntimeSettings;
use crate::config::raw::{
    RawAccessLog, RawDialect, RawFormat, RawHeaders, RawRuntime, RawTelemetry,
};
use crate::config::scalar::{Level, OutputPath};
use crate::decision::{Dialect, HeaderSettings};
use crate::telemetry::{AccessLogSettings, Format, Output, TelemetrySettings};

const MAX_DRAIN: Duration = Duration::from_secs(86_400);

impl Compiler<'_> {
    pub(super) fn headers(&self, raw: Option<&RawHeaders>) -> HeaderSettings {
        let mut headers = HeaderSettings::default();
        let Some(raw) = raw else { return headers };
        if raw.dialects.given().is_some() {
            headers.dialects.clear();
        }
        for given in raw.dialects.items() {
            let dialect = match given.value {
                RawDialect::XRatelimit => Dialect::XRatelimit,
                RawDialect::Ietf => Dialect::Ietf,
                RawDialect::RetryAfter => Dialect::RetryAfter,
            };
            if headers.dialects.contains(&dialect) {
                let message = "the dialect stands here a second time";
                self.problems.error(given.span, message, "remove one of them");
            }
            headers.dialects.push(dialect);
        }
        headers.expose_cors = raw.expose_cors.value().copied().unwrap_or(headers.expose_cors);
        headers
    }

    pub(super) fn telemetry(&self, raw: Option<&RawTelemetry>) -> TelemetrySettings {
        let mut telemetry = TelemetrySettings::default();
        let Some(raw) = raw else { return telemetry };
        if let Some(log) = raw.log.value() {
            telemetry.level = log.level.value().map_or(telemetry.level, |Level(level)| *level);
            telemetry.format = log.format.value().map_or(telemetry.format, format);
        }
        telemetry.access_log = match raw.access_log.value() {
            None => telemetry.access_log,
            Some(Either::Short(_)) => None,
            Some(Either::Long(long)) => Some(self.access_log(long)),
        };
        telemetry
    }

    fn access_log(&self, raw: &RawAccessLog) -> AccessLogSettings {
        let output = match raw.path.value() {
            None => Output::Stdout,
            Some(OutputPath(Output::File(path))) => Output::File(self.around.directory.join(path)),
            Some(OutputPath(output)) => output.clone(),
        };
        AccessLogSettings { output, format: raw.format.value().map_or(Format::Json, format) }
    }

    pub(super) fn runtime(&self, raw: Option<&RawRuntime>) -> RuntimeSettings {
        let mut runtime = RuntimeSettings::default();
        let Some(raw) = raw else { return runtime };
        runtime.workers = raw.workers.value().and_then(|workers| workers.0);
        if let Some(drain) = raw.drain.given() {
            if drain.value.0 > MAX_DRAIN {
                self.problems.error(drain.span, "\"drain\" is out of range", "write at most 1d");
            }
            runtime.drain = drain.value.0;
        }
        runtime
    }
}

fn format(raw: &RawFormat) -> Format {
    match raw {
        RawFormat::Text => Format::Text,
        RawFormat::Json => Format::Json,
    }
}
