//! How the command line writes a limit.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::time::Span;

/// A limit as the configuration writes it: `100/1m`, or `20` if it has no window.
pub fn rate(algorithm: &Algorithm) -> String {
    match algorithm.window() {
        Span::ZERO => algorithm.limit().to_string(),
        window => format!("{}/{window}", algorithm.limit()),
    }
}
