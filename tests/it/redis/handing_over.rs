//! Nodes that decide without the store for a while: leased units, and requests that are
//! reported later. The tests check their reports at their end, and their guarantees while
//! they run.
//!
//! An exact node observes the counter: its remainder is the one in Redis.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use super::{node_of, wait_for_store};
use crate::support::load::{Load, Plan, Sample, client_field, is_local};
use crate::support::{Client, Gateway, Origin, Response, StoreKind, eventually};

const ANN: &str = "X-Client: ann";
const MODES: [&str; 3] = ["exact", "leased", "write_back"];

/// The fields of `store.redis` for gateways that share a new prefix.
fn family() -> String {
    StoreKind::Standalone.redis().expect("it is Redis")
}

/// A node in this mode, with one worker and the policy `each`.
fn member(family: &str, mode: &str, policy: &str) -> Gateway {
    let policies = format!("each: {{ key: \"header:x-client\", {policy} }}");
    let gateway = node_of(&format!("{family}, mode: {mode}"), &policies, "[each]", 1);
    wait_for_store(&gateway);
    gateway
}

fn remaining(response: &Response) -> u64 {
    assert!(!is_local(response), "{response:#?}");
    response.number("X-Ratelimit-Remaining")
}

/// The remainder after one more request, which is counted, too.
fn ask(client: &mut Client) -> u64 {
    remaining(&client.get("/", &[ANN]))
}

fn end(mut gateway: Gateway) {
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.log());
}

/// The unused units, after this many requests to a node that leases and then one to the
/// observing node.
fn leased(node: &Gateway, watching: &mut Client, limit: u64) -> u64 {
    let mut client = node.client();
    for asked in 1..=5 {
        let told = ask(&mut client);
        assert!(told <= limit - asked, "{told} after {asked}");
    }
    limit - 6 - ask(watching)
}

#[test]
fn unused_leased_units_are_returned_when_a_gateway_ends() {
    for policy in ["limit: 1000/day", "limit: 1000/day, algorithm: token_bucket, burst: 1000"] {
        let family = family();
        let [node, watching] = ["leased", "exact"].map(|mode| member(&family, mode, policy));
        let mut watching = watching.client();
        let unspent = leased(&node, &mut watching, 1000);
        assert!((100..=250).contains(&unspent), "a quarter of what is free at most: {unspent}");
        end(node);
        assert_eq!(ask(&mut watching), 1000 - 7, "{policy}");
    }
}

#[test]
fn the_leases_of_a_crashed_gateway_stay_counted_until_their_window_ends() {
    let policy = "limit: 1000/2s, algorithm: fixed_window";
    let family = family();
    let [node, watching] = ["leased", "exact"].map(|mode| member(&family, mode, policy));
    let mut watching = watching.client();
    // The requests must not be in two windows, so they wait until one begins.
    ask(&mut watching);
    eventually("a window begins", || ask(&mut watching) == 999);
    leased(&node, &mut watching, 1000);
    node.signal("KILL");
    eventually("a new window begins", || ask(&mut watching) == 999);
}

#[test]
fn unreported_counts_are_reported_when_a_gateway_ends() {
    let family = family();
    let nodes = [(); 2].map(|()| member(&family, "write_back", "limit: 1000/day"));
    let watching = member(&family, "exact", "limit: 1000/day");
    for node in &nodes {
        let mut client = node.client();
        for asked in 1..=20 {
            assert!(ask(&mut client) <= 1000 - asked);
        }
    }
    nodes.into_iter().for_each(end);
    assert_eq!(ask(&mut watching.client()), 1000 - 41);
}

/// An origin whose responses state the cost that is in their path.
fn telling() -> Origin {
    Origin::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        let cost = path.trim_start_matches('/');
        format!("HTTP/1.1 200 OK\r\nX-Tokens: {cost}\r\nContent-Length: 0\r\n\r\n")
    })
}

/// A gateway in front of an origin, with one worker.
fn in_front_of(origin: &Origin, family: &str, mode: &str, policy: &str, top: &str) -> Gateway {
    let top = format!("store: {{ redis: {{ {family}, mode: {mode} }} }}\n{top}");
    Gateway::limiting_with(origin, &format!("key: \"header:x-client\", {policy}"), &top)
}

#[test]
fn costs_that_responses_tell_come_to_their_sum_in_every_mode() {
    let origin = telling();
    let policy = "limit: 10000/day, cost: { reserve: 50, settle: { header: x-tokens } }";
    for mode in MODES {
        let family = family();
        let start = |mode: &str| in_front_of(&origin, &family, mode, policy, "");
        let nodes = [start(mode), start(mode)];
        let costs = [7, 70, 0, 50, 300, 1, 49, 51];
        for node in &nodes {
            let mut client = node.client();
            for cost in costs {
                let response = client.get(&format!("/{cost}"), &[ANN]);
                assert_eq!((response.status, is_local(&response)), (200, false), "{mode}");
            }
        }
        nodes.into_iter().for_each(end);
        let left = remaining(&start("exact").client().get("/0", &[ANN]));
        // The last request still has its reservation.
        assert_eq!(left, 10_000 - 2 * costs.iter().sum::<u64>() - 50, "{mode}");
    }
}

#[test]
fn one_node_alone_tells_what_remains_to_the_unit_in_every_mode() {
    let origin = telling();
    let policy = "limit: 10000/day, cost: { reserve: 50, settle: { header: x-tokens } }";
    for mode in MODES {
        let gateway = in_front_of(&origin, &family(), mode, policy, "runtime: { workers: 1 }");
        let mut client = gateway.client();
        let mut spent = 0;
        for cost in [7, 70, 0, 50, 300, 1, 49, 51] {
            let response = client.get(&format!("/{cost}"), &[ANN]);
            assert_eq!(remaining(&response), 10_000 - spent - 50, "{mode} before {cost}");
            spent += cost;
        }
    }
}

#[test]
fn a_request_that_the_end_of_a_gateway_aborts_is_no_longer_in_flight() {
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let length = if request.line().contains("stuck") { 9 } else { 2 };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nok");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    for mode in MODES {
        let family = family();
        let policy = "limit: 1, algorithm: concurrency";
        let [leaving, staying] = [(); 2]
            .map(|()| in_front_of(&origin, &family, mode, policy, "runtime: { drain: 200ms }"));
        let mut stuck = leaving.client();
        stuck.send(b"GET /stuck HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
        assert_eq!(stuck.head().status, 200);
        let mut client = staying.client();
        assert_eq!(client.get("/", &[ANN]).status, 429, "{mode}");
        end(leaving);
        assert_eq!(client.get("/", &[ANN]).status, 200, "{mode}");
    }
}

/// The results of requests of one client to three nodes for a while.
fn rush(mode: &str, policy: &str) -> Vec<Sample> {
    let family = family();
    let nodes = [(); 3].map(|()| member(&family, mode, policy));
    let load = Load::start(&Plan {
        addresses: nodes.iter().map(Gateway::address).collect(),
        connections: 8,
        path: "/",
        clients: 1,
        rest: Duration::ZERO,
    });
    thread::sleep(Duration::from_secs(2));
    let samples = load.stop();
    let odd = samples.iter().find(|it| it.is_local || ![200, 429].contains(&it.status));
    assert!(odd.is_none(), "{odd:?}");
    samples
}

fn admitted(samples: &[Sample]) -> usize {
    samples.iter().filter(|sample| sample.status == 200).count()
}

#[test]
fn nodes_that_lease_admit_one_limit_and_no_unit_more() {
    for policy in ["limit: 300/day", "limit: 300/day, algorithm: fixed_window"] {
        let samples = rush("leased", policy);
        assert_eq!(admitted(&samples), 300, "{policy}, of {} requests", samples.len());
    }
}

#[test]
fn nodes_that_lease_from_a_bucket_admit_no_more_than_their_leases_above_it() {
    let samples = rush("leased", "limit: 1000/s, algorithm: token_bucket, burst: 200");
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        panic!("nobody has asked");
    };
    let lasted = last.sent + last.wait - first.sent;
    // The last request was sent last, and others may have been answered after it.
    let lasted = lasted.max(Duration::from_secs(2)) + Duration::from_millis(100);
    let bound = 200.0 + 1000.0 * lasted.as_secs_f64() + 0.02 * 1000.0;
    let admitted = u32::try_from(admitted(&samples)).expect("few");
    assert!(f64::from(admitted) <= bound, "{admitted} in {lasted:?}");
    assert!(admitted > 1000, "{admitted} in {lasted:?}");
}

#[test]
fn nodes_that_count_later_admit_no_more_than_two_limits_in_a_burst() {
    let samples = rush("write_back", "limit: 300/day");
    let admitted = admitted(&samples);
    assert!((300..=600).contains(&admitted), "{admitted} of {} requests", samples.len());
}

#[test]
fn nodes_in_every_mode_distinguish_clients() {
    for mode in MODES {
        let family = family();
        let nodes = [(); 2].map(|()| member(&family, mode, "limit: 2/day"));
        let mut clients = nodes.each_ref().map(Gateway::client);
        for client in 0..20 {
            let field = client_field(client);
            assert_eq!(clients[client % 2].get("/", &[&field]).status, 200, "{mode} {client}");
        }
    }
}
