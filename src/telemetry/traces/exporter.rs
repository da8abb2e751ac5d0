//! Sends spans to an OpenTelemetry collector, from the control thread.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
    WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tollgate_core::time::monotonic;
use tollgate_core::tls::{self, Trust};
use tracing::{info, warn};

use super::spans::spans;
use super::tracer::{SPANS_OF_A_REQUEST, SpanCounts, Tracer};
use crate::telemetry::record::Record;
use crate::telemetry::settings::{TraceProtocol, TraceSettings};

/// The most spans of a batch.
const MAX_BATCH: usize = 512;
/// The longest time for which a span waits for others.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// For how long the collector may take a batch.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Exports the spans of sampled requests, see [`Exporter::run`].
pub struct Exporter {
    records: mpsc::Receiver<Box<Record>>,
    counts: Arc<SpanCounts>,
    settings: TraceSettings,
}

impl Exporter {
    /// The exporter, and what begins traces for it.
    pub fn new(settings: TraceSettings) -> (Tracer, Self) {
        let (tracer, records) = Tracer::new(settings.sample);
        let counts = Arc::clone(tracer.counts());
        (tracer, Self { records, counts, settings })
    }

    /// Exports spans until all workers have ended. It needs a runtime.
    pub async fn run(self) {
        let Self { records, counts, settings } = self;
        let mut exporter = match exporter(&settings) {
            Ok(exporter) => exporter,
            Err(error) => {
                warn!("telemetry.traces: no spans are exported: {error}");
                return;
            }
        };
        // The environment may name the service and add attributes (OTEL_SERVICE_NAME,
        // OTEL_RESOURCE_ATTRIBUTES).
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let mut resource = Resource::builder().with_attribute(version);
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("tollgate");
        }
        exporter.set_resource(&resource.build());
        let batches = Batches { records, scope: InstrumentationScope::builder("tollgate").build() };
        batches.send(&counts, &settings.endpoint, |batch| exporter.export(batch)).await;
    }
}

fn exporter(settings: &TraceSettings) -> Result<SpanExporter, ExporterBuildError> {
    let endpoint = settings.endpoint.as_str();
    // Only `https` needs certificate authorities, which a bare container does not have.
    let is_encrypted = endpoint.starts_with("https:");
    let builder = SpanExporter::builder();
    match settings.protocol {
        TraceProtocol::Grpc => {
            let builder = builder.with_tonic().with_endpoint(endpoint).with_timeout(TIMEOUT);
            match is_encrypted {
                true => builder.with_tls_config(ClientTlsConfig::new().with_native_roots()).build(),
                false => builder.build(),
            }
        }
        TraceProtocol::Http => {
            let builder = builder.with_http().with_endpoint(endpoint).with_timeout(TIMEOUT);
            match is_encrypted {
                true => builder.with_http_client(encrypted_client()?),
                false => {
                    builder.with_http_client(HyperClient::with_default_connector(TIMEOUT, None))
                }
            }
            .build()
        }
    }
}

/// A client that trusts the certificate authorities of the system.
fn encrypted_client() -> Result<HyperClient<HttpsConnector<HttpConnector>>, ExporterBuildError> {
    let tls = tls::client_config(Trust::System, None).map_err(|error| {
        ExporterBuildError::InternalFailure(format!("no trusted certificates: {error}"))
    })?;
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
    Ok(HyperClient::new(connector, TIMEOUT, None))
}

/// Gathers spans to batches.
struct Batches {
    records: mpsc::Receiver<Box<Record>>,
    scope: InstrumentationScope,
}

impl Batches {
    /// Exports all batches, one after the other. The log says when the collector cannot be
    /// reached, and when it can again.
    async fn send<E>(
        mut self,
        counts: &SpanCounts,
        endpoint: &str,
        export: impl Fn(Vec<SpanData>) -> E,
    ) where
        E: Future<Output = OTelSdkResult>,
    {
        let mut is_failing = false;
        while let Some(batch) = self.next().await {
            let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            match export(batch).await {
                Ok(()) => {
                    counts.exported.fetch_add(spans, Ordering::Relaxed);
                    if std::mem::take(&mut is_failing) {
                        info!(endpoint, "the collector accepts spans again");
                    }
                }
                Err(error) => {
                    counts.failed.fetch_add(spans, Ordering::Relaxed);
                    if !std::mem::replace(&mut is_failing, true) {
                        warn!(
                            endpoint,
                            "spans are lost, the collector does not accept them: {error}"
                        );
                    }
                }
            }
        }
    }

    /// The next batch. None when all workers have ended.
    async fn next(&mut self) -> Option<Vec<SpanData>> {
        let first = self.records.recv().await?;
        let end = Instant::from_std(monotonic() + MAX_DELAY);
        let mut batch = spans(&first, &self.scope);
        while batch.len() <= MAX_BATCH - SPANS_OF_A_REQUEST {
            match timeout_at(end, self.records.recv()).await {
                Ok(Some(record)) => batch.extend(spans(&record, &self.scope)),
                Ok(None) | Err(_) => break,
            }
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests;
