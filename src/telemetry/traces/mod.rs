//! Traces: a request's context of W3C Trace Context, and its spans for an OpenTelemetry
//! collector.
//!
//! A worker makes no span while it handles a request. It passes the record of a sampled
//! request to the control thread, which makes the spans and exports them in batches. If the
//! collector is slow or away, records are dropped and counted.

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod spans;
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "the exporter reads it"))]
mod tracer;

#[cfg(feature = "otlp")]
pub use exporter::Exporter;
pub use tracer::Tracer;
