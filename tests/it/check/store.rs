//! The services for Envoy over Redis, while it answers, while it says nothing, and while it is away.

use std::net::SocketAddr;
use std::time::Duration;

use super::authorization::{ask_with, has, question};
use super::grpc::{ask, descriptor};
use crate::support::http::{Http, block_on};
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Gateway, now};

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
