//! `telemetry`: the logs and metrics of the gateway.

pub mod traces;

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::log_fields::FieldNames;

use crate::config::field::{Either, Field};
use crate::config::node::TextSpan;
use crate::config::scalar::{Level, LineForm, Off, OutputPath, Percent};
use crate::config::sections::context::Context;
use crate::config::suggest;
use crate::config::words::{Word, words};
use crate::telemetry::{
    AccessLogSettings, ClientAddress, Format, LineFormat, Output, TelemetrySettings, Template,
    TemplateError,
};
use traces::RawTraces;

/// Room for a few series, and bounded memory: a series of a worker takes up to 600 bytes.
const MAX_SERIES: RangeInclusive<u64> = 100..=1_000_000;

/// The logs and metrics of the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "telemetry", default)]
#[schemars(deny_unknown_fields)]
pub struct RawTelemetry {
    /// The log of the process, on standard error.
    log: Field<RawLog>,
    /// A log with one line for each request, or false for no such log.
    #[schemars(extend("x-default" = "on standard output"))]
    access_log: Field<Either<Off, RawAccessLog>>,
    /// The metrics of the gateway.
    metrics: Field<RawMetrics>,
    /// Traces for an OpenTelemetry collector.
    #[schemars(extend("x-default" = "none"))]
    traces: Field<RawTraces>,
}

/// The metrics of the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "metrics", default)]
#[schemars(deny_unknown_fields)]
struct RawMetrics {
    /// The most series with labels whose values clients or upstreams choose, such as methods and
    /// statuses; a histogram counts as one. Requests beyond count in series with `_overflow`.
    #[schemars(extend("default" = 10000))]
    #[schemars(example = 20_000)]
    #[schemars(range(min = *MAX_SERIES.start(), max = *MAX_SERIES.end()))]
    max_series: Field<u64>,
}

/// The log of the process, on standard error.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "log", default)]
#[schemars(deny_unknown_fields)]
struct RawLog {
    /// The lowest level of lines from the gateway itself. Lines from libraries are errors only. The
    /// environment variable TOLLGATE_LOG has precedence.
    #[schemars(extend("default" = "info"))]
    #[schemars(example = &"debug")]
    level: Field<Level>,
    /// The format of the lines. The environment variable TOLLGATE_LOG_FORMAT has precedence.
    #[schemars(extend("x-default" = "text if standard error is a terminal, otherwise json"))]
    format: Field<Word<Format>>,
}

/// A log with one line for each request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "access_log", default)]
#[schemars(deny_unknown_fields)]
struct RawAccessLog {
    /// stdout, stderr, or the path of a file.
    #[schemars(extend("default" = "stdout"))]
    #[schemars(example = &"access.log")]
    path: Field<OutputPath>,
    /// The format of the lines.
    #[schemars(extend("x-default" = "text if the output is a terminal, otherwise json"))]
    #[schemars(example = &"json")]
    format: Field<LineForm>,
    /// The names of the fields in JSON.
    #[schemars(extend("default" = "own"))]
    names: Field<Word<FieldNames>>,
    /// The share of requests that are written, of those that are neither refused nor failed (5xx)
    /// nor slow (1 s). All others are always written.
    #[schemars(extend("default" = "100%"))]
    #[schemars(example = &"10%")]
    sample: Field<Percent>,
    /// How much of a client's address is written.
    #[schemars(extend("default" = "masked"))]
    client: Field<Word<ClientAddress>>,
    /// Whether the ids of clients, costs and microseconds are written. An id tells nothing about
    /// the client. Only with `format: json`.
    #[schemars(extend("default" = false))]
    keys: Field<bool>,
}

words! {
    /// The format of a log.
    Format as "format" {
        /// For people.
        "text" => Format::Text,
        /// One JSON object for each line.
        "json" => Format::Json,
    }
}

words! {
    /// The names of the fields in JSON.
    FieldNames as "field_names" {
        /// Short names.
        "own" => FieldNames::Own,
        /// The attributes of OpenTelemetry's semantic conventions.
        "otel" => FieldNames::Otel,
        /// The fields of the Elastic Common Schema.
        "ecs" => FieldNames::Ecs,
    }
}

words! {
    /// How much of a client's address is written.
    ClientAddress as "client_address" {
        /// The network: 24 bits of an IPv4 address, 48 bits of an IPv6 address.
        "masked" => ClientAddress::Masked,
        /// The whole address.
        "full" => ClientAddress::Full,
        /// No address.
        "none" => ClientAddress::Hidden,
    }
}

impl RawTelemetry {
    pub fn compile(&self, cx: &Context<'_>) -> TelemetrySettings {
        let mut telemetry = TelemetrySettings::default();
        if let Some(log) = self.log.value() {
            telemetry.level = log.level.value().map_or(telemetry.level, |Level(level)| *level);
            telemetry.format = log.format.word();
        }
        telemetry.access_log = match self.access_log.value() {
            None => telemetry.access_log,
            Some(Either::Short(_)) => None,
            Some(Either::Long(long)) => Some(long.compile(cx)),
        };
        if let Some(metrics) = self.metrics.value() {
            let max_series = cx.number(&metrics.max_series, "max_series", MAX_SERIES);
            telemetry.max_series = max_series.unwrap_or(telemetry.max_series);
        }
        telemetry.traces =
            self.traces.given().and_then(|traces| traces.value.compile(traces.span, cx));
        telemetry
    }
}

impl RawAccessLog {
    fn compile(&self, cx: &Context<'_>) -> AccessLogSettings {
        let output = match self.path.value() {
            None => Output::Stdout,
            Some(OutputPath(Output::File(path))) => Output::File(cx.around.directory.join(path)),
            Some(OutputPath(output)) => output.clone(),
        };
        let format = self.line_format(cx);
        if !matches!(format, None | Some(LineFormat::Json(_))) {
            let needing = [
                (self.keys.span().filter(|_| self.keys.value() == Some(&true)), "keys"),
                (self.names.span(), "names"),
            ];
            for (span, name) in needing.into_iter().filter_map(|(span, it)| Some((span?, it))) {
                let message = format!("\"{name}\" is for JSON only");
                let advice = format!("write \"format: json\", or remove \"{name}\"");
                cx.error(span, &message, &advice);
            }
        }
        AccessLogSettings {
            output,
            format,
            sample_percent: self.sample.value().map_or(100, |Percent(percent)| *percent),
            client: self.client.word().unwrap_or(ClientAddress::Masked),
            has_keys: self.keys.value().copied().unwrap_or(false),
        }
    }

    /// The format with its names; none if neither is given.
    fn line_format(&self, cx: &Context<'_>) -> Option<LineFormat> {
        let json = LineFormat::Json(self.names.word().unwrap_or(FieldNames::Own));
        Some(match self.format.value() {
            // Our own names are the default, also of text.
            None => return Some(json).filter(|it| *it != LineFormat::Json(FieldNames::Own)),
            Some(LineForm::Json) => json,
            Some(LineForm::Text) => LineFormat::Text,
            Some(LineForm::Combined) => LineFormat::Combined,
            Some(LineForm::Template(text)) => LineFormat::Template(self.template(text, cx)?.into()),
        })
    }

    fn template(&self, text: &str, cx: &Context<'_>) -> Option<Template> {
        let error = match Template::parse(text) {
            Ok(template) => return Some(template),
            Err(error) => error,
        };
        let advice = match &error {
            TemplateError::Unknown(name) => {
                let known = Template::names().map(|(name, _)| name);
                suggest::advice(name, known, "the fields are", cx.problems)
            }
            TemplateError::Open | TemplateError::Closed => {
                "write a field as \"{status}\", and braces as \"{{\" and \"}}\"".to_owned()
            }
            TemplateError::Control => "write it in one line, without tabs".to_owned(),
        };
        let message = error.to_string().replace('`', "\"");
        cx.error(self.format.span().unwrap_or(TextSpan::FILE), &message, &advice);
        None
    }
}
