//! What a worker counts of the servers of the store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tollgate_core::store::overrides::Lookups;
use tollgate_core::store::{Buckets, OutageCause, ServerState, Store};

use super::cell::{Counter, Histogram};
use super::families::{
    BREAKER_OPEN, OVERRIDE_LOOKUPS, STORE_BATCH_SIZE, STORE_CALL_DURATION, STORE_CALL_ERRORS,
    STORE_CALLS, STORE_CLOCK_OFFSET, STORE_OVERLOADS,
};
use super::worker::WorkerMetrics;

/// The servers are looked at once in this many calls of [`StoreMetrics::observe`].
const INTERVAL: u8 = 10;

/// Why calls to a server fail while it decides others.
const CALL_ERRORS: [OutageCause; 4] = [
    OutageCause::ForeignData,
    OutageCause::NotRedis,
    OutageCause::Refused,
    OutageCause::ClusterNode,
];

/// What one worker counts of the servers of the store.
#[derive(Debug)]
pub struct StoreMetrics {
    worker: Rc<WorkerMetrics>,
    servers: RefCell<BTreeMap<String, Server>>,
    /// Made with the first lookup.
    lookups: RefCell<Option<[Count; 4]>>,
    turn: Cell<u8>,
}

#[derive(Debug)]
struct Server {
    open: Counter,
    answered: Count,
    failed: Count,
    overloads: Count,
    call_errors: [Count; CALL_ERRORS.len()],
    durations: Distribution,
    batch_sizes: Distribution,
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

/// A histogram that follows numbers, which begin anew in the same way.
#[derive(Debug)]
struct Distribution {
    histogram: Histogram,
    last: Buckets,
}

impl Distribution {
    fn follow(&mut self, now: Buckets) {
        let since = |number: u64, last: u64| number.checked_sub(last).unwrap_or(number);
        let last = self.last.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = now.counts.iter().zip(last).map(|(number, last)| since(*number, last));
        self.histogram.add_all(counts, since(now.sum, self.last.sum));
        self.last = now;
    }
}

impl StoreMetrics {
    /// Counts in the series of this worker.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        let worker = Rc::clone(worker);
        let servers = RefCell::default();
        let lookups = RefCell::default();
        Self { worker, servers, lookups, turn: Cell::new(0) }
    }

    /// Looks at the servers and the lookups of overrides now and then. Must be called
    /// regularly.
    pub fn observe(&self, store: &Store, lookups: Option<Lookups>) {
        self.turn.set((self.turn.get() + 1) % INTERVAL);
        if self.turn.get() == 1 {
            self.update(store.servers());
            if let Some(lookups) = lookups {
                self.count_lookups(lookups);
            }
        }
    }

    fn count_lookups(&self, Lookups { hit, negative, asked, late }: Lookups) {
        let mut counts = self.lookups.borrow_mut();
        let results = ["hit", "negative", "asked", "late"];
        let counts = counts.get_or_insert_with(|| {
            results.map(|result| {
                let counter = self.worker.counter(&OVERRIDE_LOOKUPS, &[result]);
                Count { counter, last: 0 }
            })
        });
        for (count, number) in counts.iter_mut().zip([hit, negative, asked, late]) {
            count.follow(number);
        }
    }

    fn update(&self, states: Vec<ServerState>) {
        let mut servers = self.servers.borrow_mut();
        // A server that is no longer used has no open breaker.
        for (name, server) in &*servers {
            server.open.set(0);
            if !states.iter().any(|state| state.server == *name) {
                self.worker.set_latest(&STORE_CLOCK_OFFSET, name, None);
            }
        }
        for state in states {
            let ServerState { server: ref name, is_away, answered, failed, overloads, .. } = state;
            if let Some(offset_us) = state.clock_offset_us {
                self.worker.set_latest(&STORE_CLOCK_OFFSET, name, Some(seconds(offset_us)));
            }
            let server = servers.entry(name.clone()).or_insert_with_key(|name| self.server(name));
            server.open.set(u64::from(is_away));
            server.answered.follow(answered);
            server.failed.follow(failed);
            server.overloads.follow(overloads);
            for (count, cause) in server.call_errors.iter_mut().zip(CALL_ERRORS) {
                count.follow(state.call_errors.get(&cause).copied().unwrap_or_default());
            }
            server.durations.follow(state.calls.durations_us);
            server.batch_sizes.follow(state.calls.batch_sizes);
        }
    }

    fn server(&self, name: &str) -> Server {
        let calls = |result| {
            let counter = self.worker.counter(&STORE_CALLS, &[name, result]);
            Count { counter, last: 0 }
        };
        let open = self.worker.counter(&BREAKER_OPEN, &[name]);
        let distribution = |family| {
            let histogram = self.worker.histogram(family, &[name]);
            Distribution { histogram, last: Buckets::default() }
        };
        Server {
            open,
            answered: calls("answered"),
            failed: calls("failed"),
            overloads: Count { counter: self.worker.counter(&STORE_OVERLOADS, &[name]), last: 0 },
            call_errors: CALL_ERRORS.map(|cause| {
                let counter = self.worker.counter(&STORE_CALL_ERRORS, &[name, cause.code()]);
                Count { counter, last: 0 }
            }),
            durations: distribution(&STORE_CALL_DURATION),
            batch_sizes: distribution(&STORE_BATCH_SIZE),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a difference of clocks is far below 2^53")]
fn seconds(us: i64) -> f64 {
    us as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use tollgate_core::store::CallStatistics;

    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn counts_never_go_back_and_a_server_that_is_gone_is_not_open() {
        let metrics = Metrics::new(100);
        let store = StoreMetrics::new(&Rc::new(metrics.worker()));
        let state = |is_away, answered, failed| {
            let server = "a:1".to_owned();
            let calls = CallStatistics {
                durations_us: Buckets { counts: vec![answered, failed], sum: answered * 100 },
                batch_sizes: Buckets::default(),
            };
            let clock_offset_us = Some(-1_500);
            let call_errors = [(OutageCause::ForeignData, failed)].into();
            ServerState {
                server,
                is_away,
                answered,
                failed,
                overloads: 0,
                call_errors,
                calls,
                clock_offset_us,
            }
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
        let errors = "tollgate_store_call_errors_total{cause=\"foreign_data\",server=\"a:1\"} 2";
        assert!(metrics.render().lines().any(|line| line == errors));
        let has = |line: &str| metrics.render().lines().any(|it| it == line);
        let offset = "tollgate_store_clock_offset_seconds{server=\"a:1\"} -0.0015";
        assert!(has(offset), "{}", metrics.render());
        store.update(Vec::new());
        assert_eq!(shown(), [0, 8, 2]);
        assert!(!has(offset));
        let durations = "tollgate_store_call_duration_seconds";
        assert!(has(&format!("{durations}_bucket{{server=\"a:1\",le=\"0.0001\"}} 8")));
        assert!(has(&format!("{durations}_count{{server=\"a:1\"}} 10")));
        assert!(has(&format!("{durations}_sum{{server=\"a:1\"}} 0.0008")));
        for [hit, late] in [[3, 0], [5, 1]] {
            store.count_lookups(Lookups { hit, late, ..Lookups::default() });
        }
        for (result, count) in [("hit", 5), ("late", 1), ("asked", 0)] {
            let line = format!("tollgate_override_lookups_total{{result=\"{result}\"}} {count}");
            assert!(has(&line), "{line}");
        }
    }
}
