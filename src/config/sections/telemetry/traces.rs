//! `telemetry.traces`: where the spans of requests go.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{CollectorUrl, Share};
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};
use crate::telemetry::{TraceProtocol, TraceSettings};

/// The port on which collectors expect OTLP over HTTP.
const HTTP_PORT: &str = ":4318";
/// Where collectors expect spans over HTTP.
const HTTP_PATH: &str = "/v1/traces";
/// One percent, in millionths.
const DEFAULT_SAMPLE: u32 = 10_000;

/// Traces for an OpenTelemetry collector.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "traces", default)]
#[schemars(deny_unknown_fields, extend("required" = ["otlp"]))]
pub struct RawTraces {
    /// The address of the collector. The environment variable OTEL_EXPORTER_OTLP_HEADERS can add
    /// fields, such as a token. Must be given.
    #[schemars(example = &"http://127.0.0.1:4317")]
    otlp: Field<CollectorUrl>,
    /// How spans are sent.
    #[schemars(extend("default" = "grpc"))]
    protocol: Field<Word<TraceProtocol>>,
    /// The share of requests whose spans are sent. A client in "trusted_proxies" decides itself, by
    /// the flag in "traceparent".
    #[schemars(extend("default" = "1%"))]
    #[schemars(example = &"0.1%")]
    sample: Field<Share>,
}

words! {
    /// A protocol of OpenTelemetry collectors.
    TraceProtocol as "trace_protocol" {
        /// OTLP over gRPC, usually on port 4317.
        "grpc" => TraceProtocol::Grpc,
        /// OTLP in binary form over HTTP, usually on port 4318. Without a path in "otlp" spans go
        /// to /v1/traces.
        "http" => TraceProtocol::Http,
    }
}

impl RawTraces {
    /// The settings, if there is no mistake. The section is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<TraceSettings> {
        let protocol = self.protocol.word().unwrap_or(TraceProtocol::Grpc);
        let sample = self.sample.value().map_or(DEFAULT_SAMPLE, |Share(sample)| *sample);
        if !cfg!(feature = "otlp") {
            let advice = "build it with the feature \"otlp\", or remove \"traces\"";
            cx.error(span, "this program was built without traces", advice);
        }
        let message = "\"traces\" has no \"otlp\", the address of a collector";
        cx.required(&self.otlp, span, message, "write one, like otlp: http://127.0.0.1:4317");
        let url = self.otlp.given()?;
        let CollectorUrl { server, path } = &url.value;
        let endpoint = match (protocol, path) {
            (TraceProtocol::Grpc, None) => {
                if server.ends_with(HTTP_PORT) {
                    let message = "port 4318 is usually that of OTLP over HTTP";
                    let help = "write \"protocol: http\", or the port of OTLP over gRPC (4317)";
                    cx.warning(url.span, message, help);
                }
                server.clone()
            }
            (TraceProtocol::Grpc, Some(_)) => {
                let message = "OTLP over gRPC has no path";
                cx.error(url.span, message, "remove the path, or write \"protocol: http\"");
                return None;
            }
            (TraceProtocol::Http, path) => {
                format!("{server}{}", path.as_deref().unwrap_or(HTTP_PATH))
            }
        };
        Some(TraceSettings { endpoint, protocol, sample })
    }
}
