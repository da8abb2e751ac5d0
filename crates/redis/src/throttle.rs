//! How often the log has the same warning.

use std::time::{Duration, Instant};

/// The least time between two of the same warnings.
const INTERVAL: Duration = Duration::from_secs(60);

/// Lets a warning pass once a minute.
#[derive(Debug, Default)]
pub(super) struct Throttle(Option<Instant>);

impl Throttle {
    /// Whether the warning passes now.
    pub(super) fn passes(&mut self, now: Instant) -> bool {
        let is_recent = self.0.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL);
        if !is_recent {
            self.0 = Some(now);
        }
        !is_recent
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;

    #[test]
    fn a_warning_passes_once_a_minute() {
        let begin = monotonic();
        let mut throttle = Throttle::default();
        let passes: Vec<bool> = [0, 59, 60, 61]
            .map(|seconds| throttle.passes(begin + Duration::from_secs(seconds)))
            .into();
        assert_eq!(passes, [true, false, true, false]);
    }
}
