//! What the gateway reports about itself: the process log, a record of every request for
//! the access log, and metrics.
//!
//! Writing never blocks a worker or the control thread: a full buffer drops lines and counts
//! them.

mod access_log;
mod budgets;
mod forwarders;
mod history;
mod line_limit;
mod log;
mod lost_lines;
mod methods;
mod metrics;
mod record;
mod refusals;
mod settings;
mod sinks;
mod template;
mod top;
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "the exporter reads it"))]
mod trace_context;
mod traces;
mod unsettled;
mod warnings;
mod whole_key;
mod writer;

pub use access_log::{AccessLog, WorkerLog};
pub use budgets::{BudgetWarning, BudgetWarnings};
pub use forwarders::{Forwarder, Forwarders, WorkerForwarders};
pub use history::{History, Period, PolicySteps, SECONDS as HISTORY_SECONDS};
pub use log::{ProcessLog, lost_process_lines};
pub use lost_lines::LostLines;
pub use metrics::{
    AdminMetrics, AuthMetrics, AuthorizerMetrics, BanMetrics, Bucket, Buckets, ByOutcome,
    CompressionMetrics, ConnectionMetrics, Counter, DecisionTimer, Histogram, Measurement, Metrics,
    MirrorMetrics, RateLimitMetrics, RequestMetrics, RouteLabels, Samples, Source, StoreMetrics,
    Traffic, UnitMetrics, UpstreamMetrics, UpstreamTraffic, WorkerMetrics, decision_bounds_s,
    families, model_families, plan_name,
};
pub use record::{Attempts, CLIENT_CLOSED, Name, PolicyRecord, Record, TunnelBytes, source_word};
pub use refusals::{Refusal, RefusalRings, Refused, WorkerRefusals};
pub use settings::{
    AccessLogSettings, ClientAddress, Format, LineFormat, Output, TelemetrySettings, TraceProtocol,
    TraceSettings,
};
pub use sinks::{Recording, Sinks};
pub use template::{Template, TemplateError};
pub use top::{ClientText, Merged, Streams, TopEntry, TopHistory, TopList, WorkerTop, chosen_plan};
pub use trace_context::RequestTrace;
#[cfg(feature = "otlp")]
pub use traces::Exporter;
pub use traces::Tracer;
pub use unsettled::UnsettledWarnings;
pub use warnings::Warnings;
pub use whole_key::WholeKey;
pub use writer::Reopener;
