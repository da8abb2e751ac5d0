//! The spans of a request, made from its record after it has ended. They contain no key, no
//! query and no value of a path parameter.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::Version;
use opentelemetry::trace::{
    SpanContext, SpanId as OtelSpanId, SpanKind, Status, TraceFlags, TraceId as OtelTraceId,
    TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tollgate_core::policy::MaskedAddress;

use crate::telemetry::methods::{OTHER, name_of, number_of};
use crate::telemetry::record::Record;
use crate::telemetry::trace_context::{RequestTrace, SpanId};

/// The most characters of a method that is not a standard one.
const MAX_METHOD_CHARS: usize = 64;

/// The spans of this request. Names and attributes are those of OpenTelemetry's semantic
/// conventions (HTTP and database spans, version 1.37) where it has them.
pub fn spans(record: &Record, scope: &InstrumentationScope) -> Vec<SpanData> {
    let Some(trace) = &record.trace else { return Vec::new() };
    let spans = Spans { record, trace, scope };
    let mut all = vec![spans.server()];
    if let Some(decided_us) = trace.decided_us {
        let decide = spans.decide(decided_us);
        let asked = record.store_us.map(|store_us| spans.store(&decide, decided_us, store_us));
        all.push(decide);
        all.extend(asked);
    }
    all.extend(trace.forwarded_us.map(|forwarded_us| spans.client(forwarded_us)));
    all
}

struct Spans<'r> {
    record: &'r Record,
    trace: &'r RequestTrace,
    scope: &'r InstrumentationScope,
}

impl Spans<'_> {
    /// The request as a whole.
    fn server(&self) -> SpanData {
        let Self { record, trace, .. } = self;
        let mut attributes = vec![
            KeyValue::new("url.path", record.path().to_owned()),
            KeyValue::new("network.protocol.version", version(record.version)),
            KeyValue::new("client.address", MaskedAddress(record.client).to_string()),
            KeyValue::new("tollgate.outcome", record.outcome),
        ];
        attributes.extend(self.method());
        if let Ok(id) = record.request_id.to_str() {
            attributes.push(KeyValue::new("tollgate.request_id", id.to_owned()));
        }
        if let Some(route) = &record.route {
            attributes.push(KeyValue::new("tollgate.route", route.as_str().to_owned()));
        }
        let name = match &record.pattern {
            Some(pattern) => {
                attributes.push(KeyValue::new("http.route", pattern.to_string()));
                format!("{} {pattern}", self.method_in_names()).into()
            }
            None => self.method_in_names().into(),
        };
        let mut span = self.span(name, trace.server, trace.parent, 0, record.duration_us);
        span.span_kind = SpanKind::Server;
        span.parent_span_is_remote = trace.parent.is_some();
        if let Some(status) = record.status {
            attributes.push(status_code(status));
        }
        if record.is_broken || record.status.is_none_or(|status| status.is_server_error()) {
            // As in the metrics: a status that an upstream has given is its own error.
            let error = match (record.failure, &record.status) {
                (Some(failure), _) => KeyValue::new("error.type", failure),
                (None, Some(status)) => KeyValue::new("error.type", status.as_str().to_owned()),
                (None, None) => KeyValue::new("error.type", record.outcome),
            };
            attributes.push(error);
            span.status = Status::error("");
        }
        span.attributes = attributes;
        span
    }

    /// The decision of the limiter: everything before it, too, takes part in its time.
    fn decide(&self, decided_us: u64) -> SpanData {
        let Self { record, trace, .. } = self;
        let mut span =
            self.span("decide".into(), SpanId::random(), Some(trace.server), 0, decided_us);
        let decision = record.decision.unwrap_or(record.outcome);
        span.attributes.push(KeyValue::new("tollgate.outcome", decision));
        if let Some(wait) = record.wait {
            let wait_ms = i64::try_from(wait.as_millis_ceil()).unwrap_or(i64::MAX);
            span.attributes.push(KeyValue::new("tollgate.wait_ms", wait_ms));
        }
        if let Some(binding) = record.policies.iter().find(|policy| policy.is_binding) {
            let remaining = binding.remaining.and_then(|units| i64::try_from(units).ok());
            span.attributes
                .push(KeyValue::new("tollgate.policy", binding.name.as_str().to_owned()));
            span.attributes.extend(binding.source.map(|it| KeyValue::new("tollgate.source", it)));
            span.attributes.extend(remaining.map(|it| KeyValue::new("tollgate.remaining", it)));
        }
        span
    }

    /// The question to Redis.
    fn store(&self, decide: &SpanData, decided_us: u64, store_us: u64) -> SpanData {
        let begin = decided_us.saturating_sub(store_us);
        let mut span = self.span("redis".into(), SpanId::random(), None, begin, decided_us);
        span.parent_span_id = decide.span_context.span_id();
        span.span_kind = SpanKind::Client;
        span.attributes.push(KeyValue::new("db.system.name", "redis"));
        span
    }

    /// The request to the upstream, with all attempts, until the head of the response.
    fn client(&self, forwarded_us: u64) -> SpanData {
        let Self { record, trace, .. } = self;
        let end = record.upstream_us.unwrap_or(record.duration_us);
        let name = self.method_in_names().into();
        let mut span = self.span(name, trace.client, Some(trace.server), forwarded_us, end);
        span.span_kind = SpanKind::Client;
        span.attributes.extend(self.method());
        if let Some(endpoint) = record.attempts.endpoint() {
            span.attributes.extend(server(&endpoint));
        }
        if let Some(resent) = record.attempts.count().filter(|count| *count > 1) {
            let resent = i64::try_from(resent - 1).unwrap_or(i64::MAX);
            span.attributes.push(KeyValue::new("http.request.resend_count", resent));
        }
        match record.status.filter(|_| record.upstream_us.is_some()) {
            Some(status) => {
                span.attributes.push(status_code(status));
                if status.is_client_error() || status.is_server_error() {
                    let code = KeyValue::new("error.type", status.as_str().to_owned());
                    span.attributes.push(code);
                    span.status = Status::error("");
                }
            }
            None => {
                span.attributes.push(KeyValue::new("error.type", record.outcome));
                span.status = Status::error("");
            }
        }
        span
    }

    /// The method, as the conventions name it. What a client has invented is in an attribute of
    /// its own, because values of the other one may become series of metrics.
    fn method(&self) -> Vec<KeyValue> {
        let name = name_of(number_of(&self.record.method));
        let mut attributes = vec![KeyValue::new("http.request.method", name)];
        if name == OTHER {
            let original = self.record.method.as_str().chars().take(MAX_METHOD_CHARS);
            let original = original.collect::<String>();
            attributes.push(KeyValue::new("http.request.method_original", original));
        }
        attributes
    }

    /// The method in the names of spans.
    fn method_in_names(&self) -> &'static str {
        Some(name_of(number_of(&self.record.method))).filter(|it| *it != OTHER).unwrap_or("HTTP")
    }

    /// A span between these times, in microseconds since the head of the request.
    fn span(
        &self,
        name: Cow<'static, str>,
        id: SpanId,
        parent: Option<SpanId>,
        begin_us: u64,
        end_us: u64,
    ) -> SpanData {
        let at = |us: u64| {
            let since = Duration::from_micros(self.record.time.as_micros().saturating_add(us));
            SystemTime::UNIX_EPOCH + since
        };
        let context = SpanContext::new(
            OtelTraceId::from(self.trace.id.number()),
            OtelSpanId::from(id.number()),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        );
        SpanData {
            span_context: context,
            parent_span_id: parent.map_or(OtelSpanId::INVALID, |it| it.number().into()),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name,
            start_time: at(begin_us),
            end_time: at(end_us.max(begin_us)),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// The address of an endpoint, and its port if it has one.
fn server(endpoint: &str) -> Vec<KeyValue> {
    let split = endpoint.rsplit_once(':');
    let address = |host: &str| {
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        KeyValue::new("server.address", bare.unwrap_or(host).to_owned())
    };
    match split.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
        Some((host, port)) => vec![address(host), KeyValue::new("server.port", i64::from(port))],
        None => vec![address(endpoint)],
    }
}

fn status_code(status: http::StatusCode) -> KeyValue {
    KeyValue::new("http.response.status_code", i64::from(status.as_u16()))
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}
