//! The fuzz target of this layer: a whole `gateway.yaml`.

use super::Config;
use crate::time::{Span, monotonic};

/// It must not be seen in what is said about a file.
const SECRET: &str = "hunter2-is-not-a-good-secret-at-all";
/// No file of a few KiB takes longer, on whatever machine.
const PATIENCE: Span = Span::from_secs(10);

/// The text of a configuration.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // To open these could wait for ever.
    if ["/dev", "/proc", "/sys", "/run", SECRET].iter().any(|it| text.contains(it)) {
        return;
    }
    let env = |name: &str| (name == "SECRET").then(|| SECRET.to_owned());
    let start = monotonic();
    let report = match Config::parse(text, "/nonexistent/gateway.yaml", &env) {
        Ok(compiled) => compiled.warnings.to_string(),
        Err(report) => {
            assert!(!report.is_empty(), "nothing is said about what is wrong");
            report.to_string()
        }
    };
    assert!(!report.contains(SECRET), "the report tells a secret:\n{report}");
    let elapsed = Span::from(monotonic().duration_since(start));
    assert!(elapsed < PATIENCE, "it took {} us", elapsed.as_micros());
}
