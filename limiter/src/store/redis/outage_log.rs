//! Logs the outages of Redis servers. Each worker notices by itself that a server is away or
//! back; the log has one line for all workers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{info, warn};

use super::failure::StoreError;

/// The outages that one node sees, for all of its workers.
#[derive(Clone, Debug, Default)]
pub struct OutageLog {
    outages: Arc<Mutex<HashMap<String, Outage>>>,
    /// Whether the servers are used for reads only, for which other servers can replace them.
    of_replicas: bool,
}

/// A server is away.
#[derive(Debug, Default)]
struct Outage {
    /// The number of workers that have given up the server.
    workers: usize,
    /// Whether the log has the reason. A late reply is no reason, because a caller with a short
    /// deadline may have noticed it.
    is_explained: bool,
}

impl OutageLog {
    /// The log for servers that are used for reads only.
    pub(super) fn of_replicas(&self) -> Self {
        Self { of_replicas: true, ..self.clone() }
    }

    /// Records that a worker has given up the server. True for the first worker.
    pub(super) fn lost(&self, server: &str, error: Option<&StoreError>) -> bool {
        let mut outages = self.outages.lock();
        let outage = outages.entry(server.to_owned()).or_default();
        outage.workers += 1;
        if outage.workers > 1 {
            drop(outages);
            if let Some(error) = error {
                self.explain(server, error);
            }
            return false;
        }
        outage.is_explained = error.is_none_or(|error| *error != StoreError::Timeout);
        if self.of_replicas {
            let error = error.map(ToString::to_string).unwrap_or_default();
            warn!(%server, %error, "a replica is away; the master is read instead");
            return true;
        }
        match error {
            Some(error) => {
                warn!(%server, %error, "Redis is away; policies apply on_store_failure");
            }
            None => warn!(%server, "Redis is away"),
        }
        true
    }

    /// Records why the server is still away. True for the first worker that knows it.
    pub(super) fn explain(&self, server: &str, error: &StoreError) -> bool {
        let mut outages = self.outages.lock();
        let unexplained = outages.get_mut(server).filter(|outage| !outage.is_explained);
        let Some(outage) = unexplained.filter(|_| *error != StoreError::Timeout) else {
            return false;
        };
        outage.is_explained = true;
        warn!(%server, %error, "Redis cannot be reached");
        true
    }

    /// Records that a worker uses the server again. True for the last worker.
    pub(super) fn found(&self, server: &str) -> bool {
        let is_last = self.forget(server);
        if is_last && self.of_replicas {
            info!(%server, "the replica is read again");
        } else if is_last {
            info!(%server, "Redis decides");
        }
        is_last
    }

    /// Records the end of a worker that had given up the server. True for the last worker.
    pub(super) fn forget(&self, server: &str) -> bool {
        let mut outages = self.outages.lock();
        let Some(outage) = outages.get_mut(server) else { return false };
        outage.workers -= 1;
        if outage.workers > 0 {
            return false;
        }
        outages.remove(server);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_worker_logs_the_outage_and_the_last_one_its_end() {
        let outage_log = OutageLog::default();
        let others = outage_log.clone();
        assert!(outage_log.lost("a:1", Some(&StoreError::Timeout)));
        assert!(!others.lost("a:1", Some(&StoreError::Timeout)));
        assert!(others.lost("b:1", None), "it is another server");
        assert!(!outage_log.found("a:1"));
        assert!(others.found("a:1"));
        assert!(!outage_log.found("a:1"), "it was not away");
        assert!(outage_log.lost("a:1", None), "it is another outage");
    }

    #[test]
    fn the_reason_is_logged_once_and_a_timeout_is_none() {
        let outage_log = OutageLog::default();
        let reason = StoreError::Away;
        assert!(!outage_log.explain("a:1", &reason), "it is not away");
        assert!(outage_log.lost("a:1", Some(&StoreError::Timeout)));
        assert!(!outage_log.explain("a:1", &StoreError::Timeout));
        assert!(outage_log.explain("a:1", &reason));
        assert!(!outage_log.explain("a:1", &reason));
    }
}
