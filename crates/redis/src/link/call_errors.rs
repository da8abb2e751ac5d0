//! Errors of single calls to a server that decides others: a key with data of another program,
//! or a reply that cannot be read.
//!
//! The server stays in use, and only the policies of these calls apply `on_store_failure`. So such
//! errors are counted by their causes, and the log has each cause once a minute.

use std::collections::BTreeMap;
use std::time::Instant;

use tracing::warn;

use tollgate_core::store::{Outage, OutageCause};

use super::super::throttle::Throttle;

/// The errors of the calls of one link, by their causes.
#[derive(Debug, Default)]
pub(super) struct CallErrors(BTreeMap<OutageCause, (u64, Throttle)>);

impl CallErrors {
    /// Records the error of a call about the counters at this key in Redis.
    pub(super) fn note(&mut self, error: &Outage, key: &[u8], now: Instant) {
        let Outage { server, cause, error, remedy, .. } = error;
        let (count, throttle) = self.0.entry(*cause).or_default();
        *count += 1;
        if throttle.passes(now) {
            let cause = cause.code();
            let key = String::from_utf8_lossy(key);
            warn!(
                %server, %key, cause, %error, %remedy,
                "a call to Redis fails, while Redis decides others; its policies apply \
                 on_store_failure"
            );
        }
    }

    /// The number of errors of each cause.
    pub(super) fn counts(&self) -> BTreeMap<OutageCause, u64> {
        self.0.iter().map(|(cause, (count, _))| (*cause, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;

    #[test]
    fn each_cause_is_counted() {
        let mut errors = CallErrors::default();
        let begin = monotonic();
        let error = |cause| Outage::new("r:6379", cause, "", "");
        for cause in [OutageCause::ForeignData, OutageCause::Refused, OutageCause::ForeignData] {
            errors.note(&error(cause), b"tollgate:1", begin);
        }
        let counts = errors.counts();
        assert_eq!(
            (counts[&OutageCause::ForeignData], counts[&OutageCause::Refused], counts.len()),
            (2, 1, 2)
        );
    }
}
