//! The fuzz target of this layer: a whole `gateway.yaml`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Config;

/// It must not be seen in what is said about a file.
const SECRET: &str = "hunter2-is-not-a-good-secret-at-all";
/// No file of a few KiB takes more processor time, on any machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The text of a configuration.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // To open these could wait for ever.
    if ["/dev", "/proc", "/sys", "/run", SECRET].iter().any(|it| text.contains(it)) {
        return;
    }
    let env = |name: &str| (name == "SECRET").then(|| SECRET.to_owned());
    let start = processor_time();
    let report = match Config::parse(text, "/nonexistent/gateway.yaml", &env) {
        Ok(compiled) => compiled.warnings.to_string(),
        Err(report) => {
            assert!(!report.is_empty(), "nothing is said about what is wrong");
            report.to_string()
        }
    };
    assert!(!report.contains(SECRET), "the report tells a secret:\n{report}");
    let taken = processor_time().saturating_sub(start);
    assert!(taken < PATIENCE, "it took {taken:?} of processor time");
}

/// What this thread has had of a processor. A busy machine does not make it longer.
fn processor_time() -> Duration {
    let taken = clock_gettime(ClockId::ThreadCPUTime);
    let (secs, nanos) = (u64::try_from(taken.tv_sec), u32::try_from(taken.tv_nsec));
    Duration::new(secs.unwrap_or(0), nanos.unwrap_or(0))
}
