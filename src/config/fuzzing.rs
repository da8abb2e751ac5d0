//! The fuzz target of this layer: a whole `gateway.yaml`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::model::Config;

/// A report must not contain it.
const SECRET: &str = "hunter2-is-not-a-good-secret-at-all";
/// A file of a few KiB takes less processor time than this on any machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The text of a configuration.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // Opening one of these could block for ever.
    if ["/dev", "/proc", "/sys", "/run", SECRET].iter().any(|it| text.contains(it)) {
        return;
    }
    let env = |name: &str| (name == "SECRET").then(|| SECRET.to_owned());
    let start = processor_time();
    let report = match Config::parse(text, "/nonexistent/gateway.yaml", &env) {
        Ok(compiled) => compiled.warnings.to_string(),
        Err(report) => {
            assert!(!report.is_empty(), "the report of a refused file is empty");
            report.to_string()
        }
    };
    assert!(!report.contains(SECRET), "the report contains a secret:\n{report}");
    let taken = processor_time().saturating_sub(start);
    assert!(taken < PATIENCE, "it took {taken:?} of processor time");
}

/// The processor time of this thread, which does not depend on the load of the machine.
fn processor_time() -> Duration {
    let taken = clock_gettime(ClockId::ThreadCPUTime);
    let secs = u64::try_from(taken.tv_sec);
    let nanos = u32::try_from(taken.tv_nsec);
    Duration::new(secs.unwrap_or(0), nanos.unwrap_or(0))
}
