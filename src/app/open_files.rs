//! The limit on open files: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Files that the process needs for itself, and for each worker: listening sockets, logs,
/// timers, stores.
const OWN: usize = 64;
const OF_WORKER: usize = 16;
/// Idle connections to upstreams that a worker may keep above those that each endpoint may have in
/// any case. Each takes some kilobytes of the system's memory.
const IDLE_OF_WORKER: usize = 16_384;

/// Raises the soft limit to the hard limit and returns the new limit. Many systems begin
/// with 1,024, for programs that use `select`; this program does not.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    // macOS refuses an unlimited number, but accepts this one.
    let bounded = Rlimit { current: Some(10_240), maximum };
    let set = |limit: Rlimit| setrlimit(Resource::Nofile, limit).map(|()| limit.current);
    let limit = set(raised).or_else(|_| set(bounded)).unwrap_or(current);
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// How many of `files` may be connections of clients: three quarters, so that idle clients
/// leave files for the connections to upstreams.
pub fn for_clients(files: usize, workers: usize) -> usize {
    let rest = files.saturating_sub(OWN).saturating_sub(OF_WORKER.saturating_mul(workers));
    (rest / 4).saturating_mul(3).max(workers)
}

/// How many of `files` may be idle connections of each worker to upstreams, above those that each
/// endpoint may have in any case: all workers may use what the clients leave.
pub fn for_idle(files: usize, workers: usize) -> usize {
    (files / 4 / workers.max(1)).min(IDLE_OF_WORKER)
}

/// Warnings of numbers of connections that the limit on open files does not allow. After a reload a
/// number is warned of only if it has grown.
#[derive(Debug)]
pub struct FileWarnings {
    for_clients: usize,
    for_upstreams: usize,
    /// The largest numbers that were warned of.
    clients: usize,
    upstreams: usize,
}

impl FileWarnings {
    /// For a limit of `files`.
    pub fn new(files: usize, workers: usize) -> Self {
        let for_clients = for_clients(files, workers);
        // What the clients leave.
        Self { for_clients, for_upstreams: for_clients / 3, clients: 0, upstreams: 0 }
    }

    /// The listeners may have so many connections.
    pub fn warn_of_clients(&mut self, wanted: usize) {
        let room = self.for_clients;
        if wanted > room.max(self.clients) {
            self.clients = wanted;
            warn!(
                "max_connections adds up to {wanted}, but the limit on open files leaves room \
                 for {room} clients, and more will wait: raise it (`ulimit -n`, LimitNOFILE), \
                 or lower max_connections"
            );
        }
    }

    /// The upstreams may have so many connections, as far as they have a bound.
    pub fn warn_of_upstreams(&mut self, wanted: usize) {
        let room = self.for_upstreams;
        if wanted > room.max(self.upstreams) {
            self.upstreams = wanted;
            warn!(
                "max_connections of upstreams adds up to {wanted}, but the limit on open files \
                 leaves room for {room} of them beside those of clients: raise it (`ulimit -n`, \
                 LimitNOFILE), or lower max_connections"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_get_a_quarter_up_to_a_bound() {
        assert_eq!(for_idle(1024, 2), 128);
        assert_eq!(for_idle(1_048_576, 4), IDLE_OF_WORKER);
        assert_eq!(for_idle(usize::MAX, 1), IDLE_OF_WORKER);
    }

    #[test]
    fn clients_get_three_quarters_and_at_least_one_for_each_worker() {
        assert_eq!(for_clients(1024, 2), 696);
        assert_eq!(for_clients(usize::MAX, 2), (usize::MAX - 96) / 4 * 3);
        assert_eq!([0, 64, 96, 100].map(|files| for_clients(files, 2)), [2, 2, 2, 3]);
    }

    #[test]
    fn the_limit_becomes_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        let limit = raise();
        let after = getrlimit(Resource::Nofile);
        assert_eq!((after.maximum, after.current), (before.maximum, before.maximum));
        assert_eq!(after.current, u64::try_from(limit).ok().filter(|it| *it != u64::MAX));
    }
}
