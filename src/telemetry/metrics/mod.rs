//! Metrics of the process, in the text format of Prometheus.

/// All metrics of the process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {}

impl Metrics {
    /// The whole exposition (text format 0.0.4).
    pub(crate) fn render(&self) -> String {
        format!(
            "# HELP tollgate_build_info The version of the running program.\n\
             # TYPE tollgate_build_info gauge\n\
             tollgate_build_info{{version=\"{}\"}} 1\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}
