//! Limits of the rate limit service that another server tells.

mod program;
pub(crate) mod server;
mod shapes;

use std::net::SocketAddr;

use super::grpc::{ask, descriptor, status_of_call, status_of_health};
use crate::support::{Certificates, Client, Gateway, Reserved, admin_text, eventually};
use server::{Limit, Limited, Server, TYPE, daily, domain};

const TOKEN: &str = "Authorization: Bearer read-0123456789abcdef";

/// A gateway that asks this server.
struct Node {
    gateway: Gateway,
    http: SocketAddr,
    grpc: SocketAddr,
}

impl Node {
    fn new(server: SocketAddr, more: &str) -> Self {
        Self::of(&format!("{{ server: \"h2c://{server}\"{more} }}"))
    }

    fn of(xds: &str) -> Self {
        let gateway = Gateway::start(&Self::yaml(xds));
        let [http, grpc, _] = gateway.addresses()[..] else { panic!("three listeners") };
        Self { gateway, http, grpc }
    }

    fn yaml(xds: &str) -> String {
        format!(
            "check:\n  http: {{ address: \"127.0.0.1:0\" }}\n  grpc:\n    address: \
             \"127.0.0.1:0\"\n    xds: {xds}\n\
             admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, token: \
             read-0123456789abcdef }}], hosts: [gateway.test] }}\n"
        )
    }

    /// What remains of the limit of this key, if the node can answer.
    fn remaining(&self, name: &str, key: &str) -> Option<u32> {
        let asked = || vec![descriptor(&[(key, "v")], Some(0))];
        let code = status_of_call(self.grpc, name, asked());
        (code == "0").then(|| ask(self.grpc, name, asked()).statuses[0].remaining)
    }

    /// Waits until so many remain.
    fn awaits(&self, name: &str, key: &str, remaining: u32) {
        eventually("the limit holds", || self.remaining(name, key) == Some(remaining));
    }

    fn healthcheck(&self) -> u16 {
        Client::connect(self.http).get("/healthcheck", &[]).status
    }

    fn admin(&self, path: &str) -> String {
        admin_text(self.gateway.addresses()[2], path, TOKEN)
    }

    fn metric(&self, line: &str) {
        eventually(line, || self.admin("/metrics").lines().any(|it| it == line));
    }

    /// Waits until the log has this text: another thread writes it.
    fn logs(&self, text: &str) {
        eventually(text, || self.gateway.log().contains(text));
    }

    fn reason(&self, code: &str, is_there: bool) {
        eventually(code, || self.admin("/v1/status").contains(code) == is_there);
    }
}

#[test]
fn the_limits_of_a_server_hold_change_and_keep_their_counters() {
    let server = Server::new();
    let node = Node::new(server.address(), ", node: envoy-ratelimit, metadata: { a: b }");
    let first = server.nth(0);
    assert_eq!((&*first.version, &*first.nonce, &*first.kind), ("", "", TYPE));
    assert!(first.names.is_empty() && first.error.is_none());
    let named = first.node.expect("it names itself");
    assert_eq!(&*named.id, "envoy-ratelimit");
    assert!(String::from_utf8_lossy(&named.metadata).contains('b'), "{:?}", named.metadata);
    // Envoy decides while the limits are not known.
    assert_eq!(node.remaining("d", "k"), None);
    assert_eq!(status_of_call(node.grpc, "d", vec![descriptor(&[("k", "v")], None)]), "14");
    let hit = br#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
    let mut client = Client::connect(node.http);
    assert_eq!(client.request("POST", "/json", &[], hit).status, 503);
    assert_eq!((node.healthcheck(), status_of_health(node.grpc)), (500, 2));

    server.say("1", "a", &[domain("d", vec![daily("k", 3)]), domain("gone", vec![daily("k", 3)])]);
    node.awaits("d", "k", 3);
    node.awaits("gone", "k", 3);
    assert_eq!((node.healthcheck(), status_of_health(node.grpc)), (200, 1));
    let answer = server.nth(1);
    assert_eq!((&*answer.version, &*answer.nonce, answer.error), ("1", "a", None));
    assert_eq!(client.request("POST", "/json", &[], hit).status, 200);
    ask(node.grpc, "d", vec![descriptor(&[("k", "v")], None)]);
    // A response is the whole state, and a counter does not depend on its limit.
    server.say("2", "b", &[domain("d", vec![daily("k", 30)])]);
    node.awaits("d", "k", 28);
    node.awaits("gone", "k", 0);
    let answer = server.nth(2);
    assert_eq!((&*answer.version, &*answer.nonce, answer.error), ("2", "b", None));
    // 0 requests block, and a limit in shadow mode does not.
    let blocked = Limited { value: "v".into(), ..daily("blocked", 0) };
    let shadow = Limited { shadow: true, ..daily("shadow", 0) };
    server.say("3", "c", &[domain("d", vec![blocked, shadow])]);
    let code = |key: &str| ask(node.grpc, "d", vec![descriptor(&[(key, "v")], None)]).code;
    eventually("the limit holds", || code("blocked") == 2);
    assert_eq!(code("shadow"), 1);
    let address = format!("h2c://{}", server.address());
    node.metric(&format!("tollgate_ratelimit_xds_connected{{server=\"{address}\"}} 1"));
    node.metric("ratelimit_service_config_load_success 3");
    // The configuration may be read again, and the limits stay.
    node.gateway.reload(
        &(Node::yaml(&format!(
            "{{ server: \"{address}\", node: envoy-ratelimit, \
                           metadata: {{ a: b }} }}"
        )) + "runtime: { drain: 7s }\n"),
    );
    assert_eq!(code("blocked"), 2);
}

/// Regression: the counter began again at 0 with each other stream.
#[test]
fn what_was_loaded_by_an_earlier_stream_stays_counted() {
    let server = Server::new();
    let node = Node::new(server.address(), ", node: one");
    server.nth(0);
    for (version, limit) in [("1", 3), ("2", 4), ("3", 5)] {
        server.say(version, version, &[domain("d", vec![daily("k", limit)])]);
        node.awaits("d", "k", limit);
    }
    node.metric("ratelimit_service_config_load_success 3");
    let xds = format!("{{ server: \"h2c://{}\", node: other }}", server.address());
    node.gateway.reload(&Node::yaml(&xds));
    let loaded = || {
        let metrics = node.admin("/metrics");
        let mut lines = metrics.lines();
        let value = lines.find_map(|it| it.strip_prefix("ratelimit_service_config_load_success "));
        value.and_then(|it| it.parse::<u32>().ok())
    };
    // The reload itself, and perhaps a response on the other stream.
    assert!(loaded().is_some_and(|loaded| loaded >= 4), "{:?}", loaded());
    node.gateway.reload(&Node::yaml(&xds).replace("node: other", "node: third"));
    assert!(loaded().is_some_and(|loaded| loaded >= 5), "{:?}", loaded());
}

#[test]
fn a_node_that_does_not_wait_is_ready_at_once() {
    let nothing = Reserved::new();
    let node = Node::new(nothing.address(), ", wait: false");
    assert_eq!((node.healthcheck(), status_of_health(node.grpc)), (200, 1));
    assert_eq!(node.remaining("d", "k"), None);
}

#[test]
fn a_response_with_a_mistake_is_rejected_with_its_place() {
    let server = Server::new();
    let node = Node::new(server.address(), "");
    server.nth(0);
    let faulty = |name: &str| {
        let odd = Limited { limit: Some(Limit { unit: 9, requests: 1 }), ..daily("odd", 1) };
        let upper = Limited { below: vec![odd], ..daily("k", 100) };
        [domain("good", vec![daily("k", 100)]), domain(name, vec![daily("x", 1), upper])]
    };
    server.say("1", "a", &faulty("d"));
    let place = "resource-d: descriptors[1].descriptors[0].rate_limit.unit: error: \"9\" is not a";
    let answer = server.nth(1);
    assert_eq!((&*answer.version, &*answer.nonce), ("", "a"));
    let error = answer.error.expect("it is rejected");
    assert!(error.code == 3 && error.message.starts_with(place), "{error:?}");
    assert_eq!(node.remaining("good", "k"), None);
    server.say("2", "b", &[domain("d", vec![daily("k", 3)])]);
    node.awaits("d", "k", 3);
    assert_eq!(server.nth(2).version, "2");
    server.say("3", "c", &faulty("e"));
    let answer = server.nth(3);
    assert_eq!((&*answer.version, &*answer.nonce, answer.error.is_some()), ("2", "c", true));
    assert_eq!((node.remaining("d", "k"), node.remaining("good", "k")), (Some(3), Some(0)));
    node.logs("has mistakes");
    node.reason("xds_rejected", true);
    node.metric("ratelimit_service_config_load_error 2");
    server.say("4", "d", &[domain("d", vec![daily("k", 4)])]);
    node.awaits("d", "k", 4);
    node.reason("xds_rejected", false);
}

/// Servers number their versions from 1 in each process, and tell their state bit by bit.
#[test]
fn the_state_of_a_server_that_has_restarted_holds_with_the_version_of_before() {
    let server = Server::new();
    let node = Node::new(server.address(), "");
    server.nth(0);
    server.say("1", "a", &[domain("d", vec![daily("k", 3)]), domain("later", vec![daily("k", 5)])]);
    node.awaits("d", "k", 3);
    server.nth(1);
    server.close();
    let again = server.nth(2);
    assert_eq!((&*again.version, &*again.nonce), ("", ""));
    assert!(again.node.is_some());
    assert_eq!(node.remaining("d", "k"), Some(3));
    server.say("1", "a", &[domain("d", vec![daily("k", 7)])]);
    node.awaits("d", "k", 7);
    // It is kept until the server has had time to tell it.
    assert_eq!(node.remaining("later", "k"), Some(5));
    server.say("2", "b", &[domain("d", vec![daily("k", 7)]), domain("later", vec![daily("k", 6)])]);
    node.awaits("later", "k", 6);
}

#[test]
fn a_server_that_is_away_is_told_and_its_limits_stay() {
    let place = Reserved::new();
    let node = Node::new(place.address(), "");
    node.reason("xds_away", true);
    node.logs("until it has told the limits, calls fail");
    let server = Server::on(place.listen(), None);
    server.nth(0);
    server.say("1", "a", &[domain("d", vec![daily("k", 3)])]);
    node.awaits("d", "k", 3);
    node.reason("xds_away", false);
    server.stop();
    node.reason("xds_away", true);
    assert_eq!(node.remaining("d", "k"), Some(3));
    node.logs("the limits stay as they are");
    let server = format!("h2c://{}", place.address());
    let connected = format!("tollgate_ratelimit_xds_connected{{server=\"{server}\"}} 0");
    eventually("the metrics tell it", || {
        let metrics = node.admin("/metrics");
        metrics.contains(&connected) && metrics.contains("tollgate_ratelimit_xds_age_seconds")
    });
}

#[test]
fn a_renewed_certificate_is_shown_and_no_call_fails() {
    let made = Certificates::temporary("127.0.0.1");
    let server = Server::with_tls(&made);
    let (cert, key) = made.sign("node");
    let node = Node::of(&format!(
        "{{ server: \"https://{}\", tls: {{ ca: {:?}, cert: {cert:?}, key: {key:?} }} }}",
        server.address(),
        made.ca(),
    ));
    server.nth(0);
    server.say("1", "a", &[domain("d", vec![daily("k", 3)])]);
    node.awaits("d", "k", 3);
    // The response was accepted before another stream begins.
    server.nth(1);
    let asked = server.asked().len();
    made.sign("node");
    // Another stream begins, and the limits hold meanwhile.
    eventually("it connects again", || {
        assert_eq!(node.remaining("d", "k"), Some(3));
        server.asked().len() > asked
    });
    assert!(server.nth(asked).version.is_empty());
}

#[test]
fn a_client_without_a_certificate_and_a_server_that_is_not_trusted_get_nowhere() {
    let made = Certificates::temporary("127.0.0.1");
    let server = Server::with_tls(&made);
    let other = Certificates::temporary("127.0.0.1");
    let url = format!("https://{}", server.address());
    for tls in [
        format!("{{ ca: {:?} }}", made.ca()),
        format!(
            "{{ ca: {:?}, cert: {:?}, key: {:?} }}",
            other.ca(),
            made.client(),
            made.client_key()
        ),
    ] {
        let node = Node::of(&format!("{{ server: \"{url}\", tls: {tls} }}"));
        eventually("it is told", || node.gateway.log().contains("there is no stream to the xDS"));
    }
    assert!(server.asked().is_empty());
}

#[test]
fn a_message_above_the_bound_is_not_read() {
    let server = Server::new();
    let node = Node::new(server.address(), ", max_message: 64KiB");
    server.nth(0);
    server.say("1", "a", &[domain("d", vec![daily("k", 3)])]);
    node.awaits("d", "k", 3);
    let many: Vec<Limited> = (0..4000).map(|it| daily(&format!("key-{it:020}"), 1)).collect();
    server.say("2", "b", &[domain("d", many)]);
    let why = "the message has more than 65536 bytes (see check.grpc.xds.max_message)";
    eventually("it is told", || node.gateway.log().contains(why));
    assert_eq!(node.remaining("d", "k"), Some(3));
    // It is tried again.
    let last = |server: &Server| server.asked().iter().filter(|it| it.nonce.is_empty()).count();
    eventually("there is another stream", || last(&server) == 2);
    server.say("3", "c", &[domain("d", vec![daily("k", 4)])]);
    node.awaits("d", "k", 4);
}
