//! Files that the process may have open: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the process needs for itself, and each worker: sockets that listen, logs,
/// timers, stores.
const OWN: usize = 64;
const OF_WORKER: usize = 16;

/// Raises the limit that holds as far as the system allows without asking, and
/// returns it. Many systems begin with 1,024, for programs that cannot count
/// further (select); this one has no such need.
pub(super) fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    // If it is refused, what was allowed before still is.
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Of so many files those that may be connections of clients: three quarters, so
/// that a crowd that asks nothing leaves others the way to their upstreams.
pub(super) fn for_clients(files: usize, workers: usize) -> usize {
    let rest = files.saturating_sub(OWN).saturating_sub(OF_WORKER.saturating_mul(workers));
    (rest / 4).saturating_mul(3).max(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_a_quarter_and_never_have_none() {
        assert_eq!(for_clients(1024, 2), 696);
        assert_eq!(for_clients(usize::MAX, 2), (usize::MAX - 96) / 4 * 3);
        assert_eq!([0, 64, 96, 100].map(|files| for_clients(files, 2)), [2, 2, 2, 3]);
    }

    #[test]
    fn raising_lowers_nothing() {
        let before = getrlimit(Resource::Nofile);
        let limit = raise();
        let after = getrlimit(Resource::Nofile);
        assert_eq!((after.maximum, after.current), (before.maximum, before.maximum));
        assert_eq!(after.current, u64::try_from(limit).ok().filter(|it| *it != u64::MAX));
    }
}
