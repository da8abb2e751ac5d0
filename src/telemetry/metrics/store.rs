//! What a worker counts of the servers of the store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tollgate_limiter::store::{ServerState, Store};

use super::cell::Counter;
use super::families::{BREAKER_OPEN, STORE_CALLS};
use super::worker::WorkerMetrics;

/// The servers are looked at once in this many calls of [`StoreMetrics::observe`].
const INTERVAL: u8 = 10;

/// What one worker counts of the servers of the store.
#[derive(Debug)]
pub(crate) struct StoreMetrics {
    worker: Rc<WorkerMetrics>,
    servers: RefCell<BTreeMap<String, Server>>,
    turn: Cell<u8>,
}

#[derive(Debug)]
struct Server {
    open: Counter,
    answered: Count,
    failed: Count,
}

/// A counter that follows a number, which begins anew when a connection is replaced.
#[derive(Debug)]
struct Count {
    counter: Counter,
    last: u64,
}

impl Count {
    fn follow(&mut self, number: u64) {
        self.counter.add(number.checked_sub(self.last).unwrap_or(number));
        self.last = number;
    }
}

impl StoreMetrics {
    /// Counts in the series of this worker.
    pub(crate) fn new(worker: &Rc<WorkerMetrics>) -> Self {
        let worker = Rc::clone(worker);
        Self { worker, servers: RefCell::default(), turn: Cell::new(0) }
    }

    /// Looks at the servers now and then. Must be called regularly.
    pub(crate) fn observe(&self, store: &Store) {
        self.turn.set((self.turn.get() + 1) % INTERVAL);
        if self.turn.get() == 1 {
            self.update(store.servers());
        }
    }

    fn update(&self, states: Vec<ServerState>) {
        let mut servers = self.servers.borrow_mut();
        // A server that is no longer used has no open breaker.
        servers.values().for_each(|server| server.open.set(0));
        for state in states {
            let ServerState { server: name, is_breaker_open, answered, failed } = state;
            let server = servers.entry(name).or_insert_with_key(|name| self.server(name));
            server.open.set(u64::from(is_breaker_open));
            server.answered.follow(answered);
            server.failed.follow(failed);
        }
    }

    fn server(&self, name: &str) -> Server {
        let calls = |result| {
            let counter = self.worker.counter(&STORE_CALLS, &[name, result]);
            Count { counter, last: 0 }
        };
        let open = self.worker.counter(&BREAKER_OPEN, &[name]);
        Server { open, answered: calls("answered"), failed: calls("failed") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn counts_never_go_back_and_a_server_that_is_gone_is_not_open() {
        let metrics = Metrics::new(100);
        let store = StoreMetrics::new(&Rc::new(metrics.worker()));
        let state = |is_breaker_open, answered, failed| {
            let server = "a:1".to_owned();
            ServerState { server, is_breaker_open, answered, failed }
        };
        let shown = || {
            let text = metrics.render();
            let value = |start: &str| {
                let line = text.lines().find(|line| line.starts_with(start)).expect("it is shown");
                line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok())
            };
            let open = value("tollgate_breaker_open{server=\"a:1\"}");
            let answered = value("tollgate_store_calls_total{result=\"answered\",server=\"a:1\"}");
            let failed = value("tollgate_store_calls_total{result=\"failed\",server=\"a:1\"}");
            [open, answered, failed].map(Option::unwrap)
        };
        store.update(vec![state(true, 5, 2)]);
        assert_eq!(shown(), [1, 5, 2]);
        store.update(vec![state(false, 7, 2)]);
        assert_eq!(shown(), [0, 7, 2]);
        store.update(vec![state(true, 1, 0)]);
        assert_eq!(shown(), [1, 8, 2]);
        store.update(Vec::new());
        assert_eq!(shown(), [0, 8, 2]);
    }
}
