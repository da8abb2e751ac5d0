//! The export of traces on the control thread.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use crate::telemetry::{TraceSettings, Tracer};

/// For how long a stop waits for the last spans.
const LAST_EXPORT: Duration = Duration::from_secs(1);

/// Begins traces, and exports their spans.
pub struct Traces {
    pub tracer: Tracer,
    exporting: JoinHandle<()>,
}

impl Traces {
    /// Starts a task on this thread that exports spans.
    #[cfg(feature = "otlp")]
    pub fn start(settings: TraceSettings) -> Option<Self> {
        let (tracer, exporter) = crate::telemetry::Exporter::new(settings);
        Some(Self { tracer, exporting: tokio::task::spawn_local(exporter.run()) })
    }

    /// This program was built without traces: no configuration has any.
    #[cfg(not(feature = "otlp"))]
    pub fn start(_: TraceSettings) -> Option<Self> {
        None
    }

    /// Exports the last spans, after all workers have ended.
    pub async fn finish(self) {
        drop(self.tracer);
        if timeout(LAST_EXPORT, self.exporting).await.is_err() {
            warn!("the last spans are lost: the collector has not accepted them in time");
        }
    }
}
