//! Clients that disconnect while Redis decides on their requests: nothing of these requests
//! stays in flight.

use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::task::yield_now;
use tollgate_core::algorithm::{Algorithm, Concurrency, FixedWindow, Op, Quota};
use tollgate_core::consistency::Consistency;
use tollgate_core::store::{Charge, Correction, Decided, Store};
use tollgate_core::time::{Clock, Span};

use super::conformance::{key, open, run};
use super::waits::poll_once;
use super::{PATIENT, node_of, wait_for_store};
use crate::support::load::is_local;
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Client, Gateway, StoreKind, eventually, now};

/// The delay of the answers of Redis.
const DELAY: Duration = Duration::from_millis(300);
/// The store deletes units of a node that is silent for 15 s. Units that are released only
/// by this are released too late.
const SOON: Duration = Duration::from_secs(7);

/// A request that was sent and has no response yet.
fn asking(gateway: &Gateway, fields: &str) -> Client {
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n").as_bytes());
    client
}

/// Waits until a new client with these fields is admitted, which must happen soon.
fn is_free_soon(gateway: &Gateway, fields: &[&str]) {
    let begin = now();
    eventually("the units are free", || gateway.client().get("/", fields).status == 200);
    assert!(begin.elapsed() < SOON, "{fields:?}: only after {:?}", begin.elapsed());
}

#[test]
fn units_of_clients_that_leave_while_redis_is_asked_are_free_as_soon_as_it_answers() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\", {PATIENT}", wire.url());
    let policy = "each: { key: \"header:x-client\", limit: 3, algorithm: concurrency }";
    let gateway = node_of(&store, policy, "[each]", 1);
    wait_for_store(&gateway);
    wire.set(Fault::Delay(DELAY));
    let clients: Vec<_> = (0..100).map(|_| asking(&gateway, "X-Client: ann")).collect();
    // Some requests have been sent to Redis, the others wait for the next batch.
    thread::sleep(DELAY / 3);
    drop(clients);
    wire.set(Fault::None);
    is_free_soon(&gateway, &["X-Client: ann"]);
    // No unit is lost: as many requests as the limit are admitted at the same time.
    let mut client = gateway.client();
    eventually("all units are free", || {
        client.get("/", &["X-Client: ann"]).field("X-Ratelimit-Remaining") == Some("2")
    });
}

#[test]
fn units_on_several_servers_are_free_as_well_when_their_client_leaves() {
    let servers = [(); 2].map(|()| Redis::start(Options::default()));
    let wires = servers.each_ref().map(|redis| Wire::to(redis.port()));
    let urls = wires.each_ref().map(|wire| format!("\"{}\"", wire.url())).join(", ");
    let gateway = node_of(
        &format!("shards: [{urls}], {PATIENT}"),
        "client: { key: \"header:x-client\", limit: 1, algorithm: concurrency }, \
         rate: { key: \"header:x-org\", limit: 1M/day }, \
         org: { key: \"header:x-org\", limit: 1, algorithm: concurrency }",
        "[client, rate, org]",
        1,
    );
    wait_for_store(&gateway);
    wires.iter().for_each(|wire| wire.set(Fault::Delay(DELAY)));
    let names = (0..8).map(|n| [format!("X-Client: {n}"), format!("X-Org: {n}")]);
    let clients: Vec<_> = names.clone().map(|it| asking(&gateway, &it.join("\r\n"))).collect();
    thread::sleep(DELAY / 3);
    drop(clients);
    wires.iter().for_each(|wire| wire.set(Fault::None));
    for [field, org] in names {
        is_free_soon(&gateway, &[&field, &org]);
    }
}

#[test]
fn units_are_free_as_well_when_a_client_leaves_while_a_penalty_is_counted() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let gateway = node_of(
        &format!("url: \"{}\", {PATIENT}", wire.url()),
        "each: { key: \"header:x-client\", limit: 1, algorithm: concurrency }, \
         watched: { key: \"header:x-client\", limit: 1/day, mode: shadow, \
                    penalty: { after: 3/day, ban: 6h } }",
        "[each, watched]",
        1,
    );
    wait_for_store(&gateway);
    assert_eq!(gateway.client().get("/", &["X-Client: ann"]).status, 200);
    wire.set(Fault::Delay(DELAY));
    let client = asking(&gateway, "X-Client: ann");
    // The first answer has arrived, and the request about the penalty is in progress.
    thread::sleep(DELAY * 3 / 2);
    drop(client);
    wire.set(Fault::None);
    is_free_soon(&gateway, &["X-Client: ann"]);
}

#[test]
fn units_of_a_question_that_timed_out_are_free_soon_after_redis_answers_again() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let gateway = node_of(
        &format!("url: \"{}\", timeout: 200ms", wire.url()),
        "each: { key: \"header:x-client\", limit: 1, algorithm: concurrency }",
        "[each]",
        1,
    );
    wait_for_store(&gateway);
    wire.set(Fault::Delay(Duration::from_millis(500)));
    assert!(is_local(&gateway.client().get("/", &["X-Client: ann"])));
    wire.set(Fault::None);
    wait_for_store(&gateway);
    is_free_soon(&gateway, &["X-Client: ann"]);
}

/// Wherever the counters are, and after whatever number of turns of the worker a decision
/// is dropped: the next decision finds all units available.
#[test]
fn whenever_a_decision_is_dropped_nothing_of_it_stays_in_flight() {
    let turns = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 80, 150, 300];
    let one = Algorithm::Concurrency(Concurrency::new(1).expect("it fits"));
    let quota = Quota::new(1_000_000, Span::DAY).expect("it fits");
    let rate = Algorithm::FixedWindow(FixedWindow::new(quota));
    for kind in [StoreKind::Standalone, StoreKind::Cluster, StoreKind::Sharded] {
        run(async {
            let store = open(&kind.settings().expect("it is Redis")).await;
            for (client, turns) in (1..).zip(turns) {
                let consistency = Consistency::default();
                let charge =
                    |key, algorithm| Charge { key, algorithm, cost: 1, binding: true, consistency };
                let charges = [
                    charge(key(client * 10, 1), &one),
                    charge(key(client * 10 + 1, 2), &rate),
                    charge(key(client * 10 + 2, 3), &one),
                ];
                drop_after(turns, &store, &charges).await;
                let begin = now();
                while !taken_and_given(&store, &charges).await {
                    assert!(begin.elapsed() < SOON, "{kind:?}, {turns} turns");
                }
            }
        });
    }
}

/// Drops a decision after this number of turns of the worker. A decision that is ready
/// before is no longer in flight, either.
async fn drop_after(turns: usize, store: &Store, charges: &[Charge<'_>]) {
    let mut decision = pin!(store.apply(charges, Clock::System.now()));
    for _ in 0..turns {
        if let Poll::Ready(decided) = poll_once(decision.as_mut()).await {
            return give_back(store, charges, &decided);
        }
        yield_now().await;
    }
}

/// Whether all charges are admitted. Their units are released.
async fn taken_and_given(store: &Store, charges: &[Charge<'_>]) -> bool {
    let decided = store.apply(charges, Clock::System.now()).await;
    let is_admitted = decided.answers.iter().all(|answer| answer.verdict.admitted);
    if is_admitted {
        give_back(store, charges, &decided);
    }
    is_admitted
}

fn give_back(store: &Store, charges: &[Charge<'_>], decided: &Decided) {
    let op = Op::Give { cost: 1, taken: decided.at };
    for (charge, answer) in charges.iter().zip(&decided.answers) {
        if matches!(charge.algorithm, Algorithm::Concurrency(_)) {
            let correction = Correction { charge: *charge, source: answer.source, op };
            store.correct(&[correction], Clock::System.now());
        }
    }
}
