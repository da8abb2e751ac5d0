//! The services for Envoy over Redis, while it answers, while it says nothing, and while it is away.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::api::Caller;
use super::authorization::{ask_with, has, question};
use super::grpc::{Limit, ask, descriptor};
use crate::support::http::{Http, block_on};
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Gateway, eventually, now};

/// An answer that takes less has waited neither for the store, whose timeout is longer, nor for a
/// connection to it.
const SOON: Duration = Duration::from_secs(4);

/// A node with three policies that differ in what they do without the store.
fn node(url: &str) -> (Gateway, SocketAddr) {
    let gateway = Gateway::start(&format!(
        "check: {{ grpc: {{ address: \"127.0.0.1:0\", domains: {{ edge: [\
           {{ match: [alone], policy: alone }}, {{ match: [closed], policy: closed }}, \
           {{ match: [open], policy: open }}] }} }} }}\n\
         policies:\n  alone: {{ key: ip, limit: 4/day }}\n  \
           closed: {{ key: ip, limit: 4/day, on_store_failure: deny }}\n  \
           open: {{ key: ip, limit: 4/day, on_store_failure: allow }}\n\
         routes: [{{ path: /closed, policies: [closed], respond: {{ status: 204 }} }}]\n\
         runtime: {{ workers: 1 }}\n\
         store: {{ redis: {{ url: \"{url}\", timeout: 9s }} }}\n"
    ));
    let [address] = gateway.addresses()[..] else { panic!("one listener") };
    (gateway, address)
}

/// The code of each of several single hits, and what remains after it.
fn hits(address: SocketAddr, policy: &str, times: usize) -> Vec<(i32, u32)> {
    let hit = || {
        let answer = ask(address, "edge", vec![descriptor(&[(policy, "c")], None)]);
        let [status] = &answer.statuses[..] else { panic!("one status: {answer:?}") };
        assert_eq!(answer.code, status.code);
        (status.code, status.remaining)
    };
    (0..times).map(|_| hit()).collect()
}

#[test]
fn envoy_is_answered_in_time_whatever_the_store_does() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let (_first, address) = node(&wire.url());
    let (_second, other) = node(&redis.url());
    // Both nodes count on one counter.
    assert_eq!(hits(address, "alone", 2), [(1, 3), (1, 2)]);
    assert_eq!(hits(other, "alone", 3), [(1, 1), (1, 0), (2, 0)]);
    assert_eq!(hits(address, "alone", 1), [(2, 0)]);

    // The store is silent. Regression: the answer of the authorization took its whole timeout.
    wire.set(Fault::Swallow);
    block_on(async {
        let connection = Http::prior_knowledge(address).await;
        let asked = question("/closed", "192.0.2.1", &[]);
        let begun = now();
        let answer = ask_with(&connection, asked, &[("grpc-timeout", "100m")]).await;
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        // The code 14 of gRPC, and the status 503 of HTTP.
        assert!(has(&answer, &[8, 14]) && has(&answer, &[8, 0xf7, 3]), "{answer:?}");
    });

    // The store is away: each policy does what its owner has chosen.
    wire.set(Fault::Cut);
    let begun = now();
    assert_eq!(hits(address, "closed", 2), [(2, 0); 2]);
    assert_eq!(hits(address, "open", 6).iter().map(|it| it.0).collect::<Vec<_>>(), [1; 6]);
    assert_eq!(hits(address, "alone", 1), [(2, 0)], "it was over its limit before");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// A gateway with the limit 21 of envoyproxy/ratelimit, and the codes that it tells a client for
/// questions with 0 hits around reports of 10.
fn reporting(directory: &Path, store: &str) -> (Gateway, impl Fn(&str) -> [i32; 8] + use<>) {
    let limit = "rate_limit: { unit: day, requests_per_unit: 21 }";
    let file = format!("domain: d\ndescriptors: [{{ key: k, {limit} }}]\n");
    std::fs::write(directory.join("d.yaml"), file).expect("a file");
    let gateway = Gateway::start(&format!(
        "check: {{ grpc: {{ address: \"127.0.0.1:0\", envoy_config: {directory:?} }} }}\n\
         store: {{ redis: {{ {store} }} }}\n\
         runtime: {{ workers: 1 }}\n"
    ));
    let address = gateway.address();
    let codes =
        move |client: &str| [0, 10, 0, 10, 0, 10, 0, 0].map(|hits| code(address, client, hits));
    (gateway, codes)
}

fn code(address: SocketAddr, client: &str, hits: u64) -> i32 {
    ask(address, "d", vec![descriptor(&[("k", client)], Some(hits))]).code
}

/// The third report is beyond the limit.
const REPORTED: [i32; 8] = [1, 1, 1, 1, 1, 2, 2, 2];

/// A service that reports units after they were used asks with 0 hits before. Regression: without
/// the store a report beyond the limit was not counted, so the next question found room.
#[test]
fn a_report_beyond_the_limit_counts_also_without_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let (_first, codes) = reporting(directory.path(), &format!("url: \"{}\"", wire.url()));
    assert_eq!(codes("with"), REPORTED);
    wire.set(Fault::Cut);
    assert_eq!(codes("without"), REPORTED);
    // It starts now, because a node that knows of another one has half of the limit alone.
    let (second, _) = reporting(directory.path(), &format!("url: \"{}\"", redis.url()));
    assert_eq!(code(second.address(), "without", 0), 1);
    wire.set(Fault::None);
    eventually("the reports arrive", || code(second.address(), "without", 0) == 2);
}

/// Regression: a question with 0 hits was always admitted where a node leases units.
#[test]
fn a_question_of_0_hits_asks_the_store_in_each_mode() {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = Redis::start(Options::default());
    let store = |mode: &str| format!("url: \"{}\", mode: {mode}", redis.url());
    let (_leasing, codes) = reporting(directory.path(), &store("leased"));
    assert_eq!(codes("leased"), REPORTED);
    let (later, codes) = reporting(directory.path(), &store("write_back"));
    assert_eq!(codes("later")[..6], REPORTED[..6]);
    eventually("the report arrives", || code(later.address(), "later", 0) == 2);
}

/// A node that knows that one limit refuses a request does not ask the store about the others.
/// Regression: a counter that was not asked was told to be unused.
#[test]
fn a_counter_that_was_not_asked_is_not_told() {
    let redis = Redis::start(Options::default());
    let gateway = Gateway::start(&format!(
        "check: {{ grpc: {{ address: \"127.0.0.1:0\", domains: {{ edge: [\
           {{ match: [large], policy: large }}, {{ match: [small], policy: small }}] }} }} }}\n\
         policies:\n  large: {{ key: ip, limit: 5/day, algorithm: fixed_window }}\n  \
           small: {{ key: ip, limit: 2/day, algorithm: fixed_window }}\n\
         runtime: {{ workers: 1 }}\n\
         store: {{ redis: {{ url: \"{}\" }} }}\n",
        redis.url()
    ));
    let hits = |key, hits| descriptor(&[(key, "c")], Some(hits));
    let ask = |hits| ask(gateway.address(), "edge", hits);
    assert_eq!(ask(vec![hits("large", 4)]).code, 1);
    assert_eq!(ask(vec![hits("small", 2)]).code, 1);
    eventually("the store is not asked", || {
        let answer = ask(vec![hits("large", 1), hits("small", 1)]);
        let [large, small] = &answer.statuses[..] else { panic!("two statuses: {answer:?}") };
        assert_eq!((small.code, small.remaining), (2, 0));
        let fields = answer.field("ratelimit").expect("it is configured");
        match &large.limit {
            Some(Limit { requests, .. }) => {
                assert_eq!((large.code, *requests, large.remaining), (1, 5, 1));
                assert!(fields.contains("large"), "{fields}");
                false
            }
            None => {
                assert_eq!((large.code, large.remaining), (1, 0));
                assert!(!fields.contains("large"), "{fields}");
                true
            }
        }
    });
    assert_eq!(ask(vec![hits("large", 0)]).statuses[0].remaining, 1);
}

/// The answer was kept for a minute, also when the store had come back.
#[test]
fn a_question_that_could_not_be_decided_is_asked_again_under_its_idempotency_key() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let gateway = Gateway::start(&format!(
        "check: {{ http: {{ address: \"127.0.0.1:0\", tokens: [{{ token: 0123456789abcdef }}] }} }}\n\
         policies: {{ closed: {{ key: ip, limit: 4/day, on_store_failure: deny }}, \
           open: {{ key: ip, limit: 4/day, on_store_failure: allow }} }}\n\
         store: {{ redis: {{ url: \"{}\" }} }}\n",
        wire.url()
    ));
    let mut caller = Caller::at(gateway.addresses()[0]);
    let closed = r#"{"policy": "closed", "key": "192.0.2.1"}"#;
    let open = r#"{"policy": "open", "key": "192.0.2.1"}"#;
    let calls = [
        ("alone", closed.to_owned()),
        ("together", format!(r#"{{"checks": [{closed}, {open}], "together": true}}"#)),
        ("list", format!(r#"{{"checks": [{closed}, {closed}]}}"#)),
        ("mixed", format!(r#"{{"checks": [{closed}, {open}]}}"#)),
    ];
    let mut ask = |(name, body): &(&str, String)| {
        let (status, answer) =
            caller.send("/v1/check", body, &[&format!("Idempotency-Key: {name}")]);
        assert_eq!(status, 200, "{name}: {answer}");
        let first = answer.get("answers").map_or(&answer, |answers| &answers[0]);
        first["outcome"].as_str().expect("a word").to_owned()
    };
    wire.set(Fault::Cut);
    eventually("the store is away", || gateway.log().contains("Redis is away"));
    for call in &calls {
        assert_eq!(ask(call), "unavailable", "{call:?}");
    }
    wire.set(Fault::None);
    eventually("the store decides", || ask(&("new", closed.to_owned())) == "admitted");
    for call in &calls[..3] {
        assert_eq!(ask(call), "admitted", "{call:?}");
    }
    // Its second question is counted, and is not counted again.
    assert_eq!(ask(&calls[3]), "unavailable");
}
