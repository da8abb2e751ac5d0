//! Warnings of what clients may cause again and again: each kind has a bound in the log.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The shortest time between two warnings of one kind.
const INTERVAL: Duration = Duration::from_secs(60);

/// When the log has warned of one kind of thing, on one worker.
#[derive(Debug, Default)]
pub struct Warnings(Cell<Option<Instant>>);

impl Warnings {
    /// Whether the log may warn at `now`. If it may, the caller does.
    pub fn is_due(&self, now: Instant) -> bool {
        let is_due =
            self.0.get().is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        if is_due {
            self.0.set(Some(now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;

    #[test]
    fn the_log_warns_once_in_each_interval() {
        let warnings = Warnings::default();
        let begin = monotonic();
        let due = |ms: u64| warnings.is_due(begin + Duration::from_millis(ms));
        assert!(due(0) && !due(1) && !due(59_999));
        assert!(due(60_000) && !due(60_001) && !due(119_999));
        assert!(due(120_000));
    }
}
