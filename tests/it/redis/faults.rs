//! Failures of Redis under load: no request fails unless a policy demands it, none waits
//! for long, nothing is counted twice, and soon after the failure all is as before.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::MutexGuard;
use std::thread;
use std::time::{Duration, Instant};

use super::{node_of, wait_for_store};
use crate::support::load::{Load, Plan, Sample, client_field, is_local, percentile};
use crate::support::redis::{Cluster, Fault, Options, Redis, Sentinels, Wire};
use crate::support::{Gateway, alone, eventually, now};

/// The configured timeout of decisions.
const TIMEOUT: Duration = Duration::from_millis(50);
/// A timeout of which a busy machine does not use up the half, for a trial in which nothing waits for
/// the store.
const NOTICEABLE: Duration = Duration::from_millis(200);
/// A longer timeout, for trials that check that the store never counts as unavailable.
const PATIENT: Duration = Duration::from_secs(2);
/// The tolerated difference between two gateways that share the same cores.
const NOISE: Duration = Duration::from_millis(50);
/// The time within which the store must be used again.
const RECOVERY: Duration = Duration::from_secs(2);
/// The length of each part of a trial.
const PART: Duration = Duration::from_millis(1500);
const LIMIT: u64 = 1_000_000;
const CLIENTS: usize = 40;

/// A gateway under load, and the results.
struct Trial {
    gateway: Gateway,
    load: Load,
    bystander: Gateway,
    /// As many requests at once to a second gateway without a store. Their waits are those of the
    /// machine, which also runs other tests.
    usual: Load,
    timeout: Duration,
    began: Instant,
    _alone: MutexGuard<'static, ()>,
}

/// The results of a trial.
struct Outcome {
    gateway: Gateway,
    samples: Vec<Sample>,
    /// The results of the second gateway.
    usual: Vec<Sample>,
    timeout: Duration,
    /// The time at which the failure began.
    broken: Instant,
    /// The time in which it lasted.
    failing: Range<Instant>,
    /// The time at which the failure ended.
    mended: Instant,
}

impl Trial {
    /// Continues the load for a while.
    fn start(store: &str) -> Self {
        Self::start_waiting(store, TIMEOUT)
    }

    /// The same with this timeout of decisions.
    fn start_waiting(store: &str, timeout: Duration) -> Self {
        let alone = alone();
        let store = format!("{store}, timeout: {}ms", timeout.as_millis());
        let counts = format!("limit: {LIMIT}/day, algorithm: fixed_window");
        let policy = format!("each: {{ key: \"header:x-client\", {counts} }}");
        let gateway = node_of(&store, &policy, "[each]", 1);
        wait_for_store(&gateway);
        let bystander = bystander();
        let load = load_on(&gateway, 8);
        let usual = load_on(&bystander, 8);
        thread::sleep(PART);
        Self { gateway, load, bystander, usual, timeout, began: now(), _alone: alone }
    }

    /// Waits until a failure that began with the trial and has just ended is over, and a
    /// little longer.
    fn end(self, mended: Instant) -> Outcome {
        let failing = self.began..mended;
        self.end_of(failing, mended)
    }

    /// The same for a failure that lasted in the time `failing` for certain.
    fn end_of(self, failing: Range<Instant>, mended: Instant) -> Outcome {
        wait_for_store(&self.gateway);
        thread::sleep(PART);
        let samples = self.load.stop();
        let usual = self.usual.stop();
        let Self { gateway, timeout, began: broken, bystander, .. } = self;
        drop(bystander);
        let outcome = Outcome { gateway, samples, usual, timeout, broken, failing, mended };
        outcome.check_answers();
        outcome
    }

    /// A failure that lasts for a while.
    fn through(self, begin: impl FnOnce(), end: impl FnOnce()) -> Outcome {
        begin();
        let begun = now();
        thread::sleep(PART);
        let failing = begun..now();
        end();
        // Another program begins and ends the failure, which takes a while on a busy machine.
        self.end_of(failing, now())
    }

    /// A crash of the server, which starts again after a while. It answers requests before
    /// [`Redis::restart`] returns.
    fn through_a_crash(self, redis: &mut Redis) -> Outcome {
        let redis = RefCell::new(redis);
        self.through(|| redis.borrow_mut().kill(), || redis.borrow_mut().restart())
    }
}

impl Outcome {
    /// Checks that hold in every trial.
    fn check_answers(&self) {
        let failed = self.samples.iter().find(|sample| sample.status != 200);
        assert!(failed.is_none(), "nothing is refused or fails: {failed:?}");
        let trouble = self.broken..self.mended + RECOVERY;
        let usual = percentile(&between(&self.usual, &trouble), 99);
        let p99 = percentile(&between(&self.samples, &trouble), 99);
        let most = usual + self.timeout + NOISE;
        assert!(p99 <= most, "99 % waited for {p99:?} at most, and {usual:?} without a store");
        // A decision that waited as long as its timeout has asked the store. A busy machine can need
        // longer for that.
        let is_alone = |sample: &&Sample| sample.is_local && sample.wait < self.timeout;
        let late = self.samples.iter().rfind(is_alone);
        let delay = late.map(|late| late.sent.saturating_duration_since(self.mended));
        assert!(delay.unwrap_or_default() <= RECOVERY, "the store is used again after {delay:?}");
    }

    /// While the store is known to be unavailable, no request waits for it.
    fn check_breaker(&self) {
        let open = self.failing.start + PART / 3..self.failing.end;
        let usual = percentile(&between(&self.usual, &open), 50);
        let open = between(&self.samples, &open);
        let local = open.iter().filter(|sample| sample.is_local).count();
        assert!(local * 10 > open.len() * 9, "{local} of {} judged alone", open.len());
        // `waits` checks that such a decision does not wait at all. There, no other program
        // can delay it.
        let median = percentile(&open, 50);
        let most = usual + self.timeout / 2;
        assert!(median < most, "{median:?}, and {usual:?} without a store");
    }

    /// The store never counted as unavailable.
    fn check_never_alone(&self) {
        let alone = self.samples.iter().filter(|sample| sample.is_local).count();
        assert_eq!(alone, 0, "so many of {} were judged without the store", self.samples.len());
    }

    /// The store counts no more than was admitted for each client. If it has lost no data,
    /// it also counts everything that was not in doubt.
    fn check_counts(&self, has_lost: bool) {
        let mut connection = self.gateway.client();
        for client in 0..CLIENTS {
            let own = || self.samples.iter().filter(|sample| sample.client == client);
            let sent = u64::try_from(own().count()).expect("few");
            let doubtful = own().filter(|sample| sample.is_local).count();
            let doubtful = u64::try_from(doubtful).expect("few");
            let mut asked = 0;
            let mut counted = 0;
            eventually("the store judges", || {
                let response = connection.get("/", &[&client_field(client)]);
                // This request is counted, too.
                asked += 1;
                counted = LIMIT - response.number("X-Ratelimit-Remaining");
                !is_local(&response)
            });
            let sent = sent + asked;
            assert!(counted <= sent, "client {client}: {counted} counted for {sent} requests");
            let least = if has_lost { 0 } else { sent - doubtful - (asked - 1) };
            assert!(counted >= least, "client {client}: {counted} counted for {sent} requests");
        }
    }
}

fn between(samples: &[Sample], times: &Range<Instant>) -> Vec<Sample> {
    samples.iter().filter(|sample| times.contains(&sample.sent)).copied().collect()
}

/// A gateway without a store.
fn bystander() -> Gateway {
    Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n\
         runtime: { workers: 1 }\n",
    )
}

fn load_on(gateway: &Gateway, connections: usize) -> Load {
    Load::start(&Plan {
        addresses: vec![gateway.address()],
        connections,
        path: "/",
        clients: CLIENTS,
        rest: Duration::from_millis(12),
    })
}

fn url(redis: &Redis) -> String {
    format!("url: \"{}\"", redis.url())
}

/// A trial on a wire.
fn on_wire(fault: Fault) {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let trial = Trial::start(&format!("url: \"{}\"", wire.url()));
    let outcome = trial.through(|| wire.set(fault), || wire.set(Fault::None));
    outcome.check_breaker();
    outcome.check_counts(false);
}

#[test]
fn a_crash() {
    let mut redis = Redis::start(Options::default());
    let trial = Trial::start_waiting(&url(&redis), NOTICEABLE);
    let outcome = trial.through_a_crash(&mut redis);
    outcome.check_breaker();
    outcome.check_counts(true);
}

/// Leased units are still used, and `write_back` still counts here. So the same holds as in
/// the mode in which every request waits for Redis.
fn a_crash_of_what_decides_alone(mode: &str) {
    let mut redis = Redis::start(Options::default());
    let trial = Trial::start(&format!("{}, mode: {mode}", url(&redis)));
    trial.through_a_crash(&mut redis).check_counts(true);
}

#[test]
fn a_crash_while_units_are_leased() {
    a_crash_of_what_decides_alone("leased");
}

#[test]
fn a_crash_while_units_are_counted_later() {
    a_crash_of_what_decides_alone("write_back");
}

#[test]
fn a_restart() {
    let mut redis = Redis::start(Options::default());
    let trial = Trial::start(&url(&redis));
    redis.kill();
    redis.restart();
    trial.end(now()).check_counts(true);
}

#[test]
fn a_process_that_is_stopped_and_goes_on() {
    let redis = Redis::start(Options::default());
    let trial = Trial::start(&url(&redis));
    let outcome = trial.through(|| redis.stop(), || redis.cont());
    outcome.check_breaker();
    outcome.check_counts(false);
}

#[test]
fn all_data_are_deleted() {
    let redis = Redis::start(Options::default());
    let trial = Trial::start_waiting(&url(&redis), PATIENT);
    let outcome = trial.through(|| drop(redis.cli(&["FLUSHALL"])), || ());
    outcome.check_never_alone();
    outcome.check_counts(true);
}

#[test]
fn all_scripts_are_deleted() {
    let redis = Redis::start(Options::default());
    let flush = || drop(redis.cli(&["SCRIPT", "FLUSH", "SYNC"]));
    let outcome = Trial::start_waiting(&url(&redis), PATIENT).through(flush, flush);
    outcome.check_never_alone();
    outcome.check_counts(false);
}

#[test]
fn clients_are_paused() {
    let redis = Redis::start(Options::default());
    let pause = PART.as_millis().to_string();
    let outcome = Trial::start(&url(&redis))
        .through(|| drop(redis.cli(&["CLIENT", "PAUSE", &pause, "ALL"])), || ());
    outcome.check_counts(false);
}

#[test]
fn there_is_no_memory_left() {
    let redis = Redis::start(Options::default());
    let limit = |bytes: &str| drop(redis.cli(&["CONFIG", "SET", "maxmemory", bytes]));
    let outcome = Trial::start(&url(&redis)).through(|| limit("1"), || limit("0"));
    outcome.check_breaker();
    outcome.check_counts(false);
}

#[test]
fn the_server_becomes_a_replica_and_a_master_again() {
    let redis = Redis::start(Options::default());
    let follow = |host: &str, port: &str| drop(redis.cli(&["REPLICAOF", host, port]));
    let outcome =
        Trial::start(&url(&redis)).through(|| follow("127.0.0.1", "9"), || follow("NO", "ONE"));
    outcome.check_breaker();
    outcome.check_counts(false);
}

#[test]
fn all_connections_are_closed() {
    let redis = Redis::start(Options::default());
    let close = || drop(redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]));
    Trial::start(&url(&redis)).through(close, close).check_counts(false);
}

#[test]
fn a_wire_that_is_slower_than_the_timeout() {
    on_wire(Fault::Delay(TIMEOUT * 2));
}

#[test]
fn a_wire_of_fifty_milliseconds_where_twenty_are_waited_for() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\"", wire.url());
    let trial = Trial::start_waiting(&store, Duration::from_millis(20));
    let slow = Fault::Delay(Duration::from_millis(50));
    let outcome = trial.through(|| wire.set(slow), || wire.set(Fault::None));
    outcome.check_breaker();
    outcome.check_counts(false);
}

#[test]
fn a_wire_that_is_slow_but_not_too_slow() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let trial = Trial::start(&format!("url: \"{}\"", wire.url()));
    let slow = Fault::Delay(TIMEOUT / 5);
    trial.through(|| wire.set(slow), || wire.set(Fault::None)).check_counts(false);
}

#[test]
fn a_wire_that_swallows_everything() {
    on_wire(Fault::Swallow);
}

#[test]
fn a_wire_that_answers_nonsense() {
    on_wire(Fault::Garbage);
}

#[test]
fn a_wire_that_is_cut() {
    on_wire(Fault::Cut);
}

#[test]
fn a_replica_is_promoted_by_sentinels() {
    let mut sentinels = Sentinels::start();
    let trial = Trial::start(&format!("url: \"{}\"", sentinels.url()));
    sentinels.master.kill();
    sentinels.wait_for_promotion();
    trial.end(now()).check_counts(true);
}

#[test]
fn a_master_of_a_cluster_crashes() {
    let mut cluster = Cluster::start();
    let trial = Trial::start(&format!("url: \"{}\"", cluster.url()));
    cluster.fail_over();
    let outcome = trial.end(now());
    outcome.check_counts(true);
    let has = |line: &str| outcome.gateway.log().contains(line);
    assert!(has("Redis is away"));
    eventually("the log has the end of the outage", || has("the server is no longer used"));
}

#[test]
fn slots_of_a_cluster_move() {
    let cluster = Cluster::start();
    let trial = Trial::start_waiting(&format!("url: \"{}\"", cluster.url()), PATIENT);
    let outcome = trial.through(|| cluster.reshard(500), || ());
    outcome.check_never_alone();
    outcome.check_counts(false);
}
