//! Rules of `check.grpc.domains`: a descriptor has the counter of the request with the same key,
//! and of no other request.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::grpc::{ask, descriptor};
use crate::support::{Client, Gateway};

/// The entries of a descriptor.
type Entries<'e> = &'e [(&'e str, &'e str)];

/// A gateway whose rules take the keys of their policies from entries.
struct Doors {
    gateway: Gateway,
    json: SocketAddr,
    grpc: SocketAddr,
}

impl Doors {
    fn open() -> Self {
        let gateway = Gateway::start(
            "listeners: [{ address: \"127.0.0.1:0\" }]\n\
             client: { trusted_proxies: [127.0.0.0/8] }\n\
             policies:\n\
             \x20 either: { key: { first: [api_key, ip] }, limit: 100/d, algorithm: fixed_window }\n\
             \x20 both: { key: { all: [ip, path] }, limit: 100/d, algorithm: fixed_window }\n\
             \x20 tenant: { key: { all: [\"header:x-tenant\", host] }, limit: 100/d, \
                           algorithm: fixed_window }\n\
             routes:\n\
             \x20 - { path: /either, policies: [either], respond: { status: 204 } }\n\
             \x20 - { path: /both, policies: [both], respond: { status: 204 } }\n\
             \x20 - { path: /tenant, policies: [tenant], respond: { status: 204 } }\n\
             check:\n\
             \x20 http: { address: \"127.0.0.1:0\" }\n\
             \x20 grpc:\n\
             \x20   address: \"127.0.0.1:0\"\n\
             \x20   domains:\n\
             \x20     edge:\n\
             \x20       - { match: [remote_address], policy: either, key: { ip: remote_address } }\n\
             \x20       - { match: [remote_address, path], policy: both, \
                             key: { ip: remote_address, path: path } }\n\
             \x20       - { match: [tenant, authority], policy: tenant, \
                             key: { \"header:X-Tenant\": tenant, host: authority } }\n",
        );
        let [_, json, grpc] = gateway.addresses()[..] else { panic!("three listeners") };
        Self { gateway, json, grpc }
    }

    /// What remains after a hit on a descriptor over gRPC.
    fn over_grpc(&self, entries: Entries<'_>) -> u64 {
        ask(self.grpc, "edge", vec![descriptor(entries, None)]).statuses[0].remaining.into()
    }

    /// The same over HTTP.
    fn over_http(&self, entries: Entries<'_>) -> u64 {
        let entries = entries.iter().map(|(key, value)| json!({ "key": key, "value": value }));
        let entries: Vec<Value> = entries.collect();
        let body = json!({ "domain": "edge", "descriptors": [{ "entries": entries }] });
        let mut client = Client::connect(self.json);
        let answer = client.request("POST", "/json", &[], body.to_string().as_bytes());
        let answer: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        answer["statuses"][0]["limitRemaining"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }

    /// The status of a question with this key over the JSON API, and what remains.
    fn asked(&self, policy: &str, key: &Value) -> (u16, Option<u64>) {
        let body = json!({ "policy": policy, "key": key }).to_string();
        let fields = ["Content-Type: application/json"];
        let mut client = Client::connect(self.json);
        let answer = client.request("POST", "/v1/check", &fields, body.as_bytes());
        let found: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        (answer.status, found["remaining"].as_u64())
    }

    /// What remains after a request of this client that the gateway answers itself.
    fn through(&self, path: &str, fields: &[&str]) -> u64 {
        let client = &mut self.gateway.client();
        client.get(path, fields).number("x-ratelimit-remaining")
    }
}

#[test]
fn a_descriptor_has_the_counter_of_the_request_with_its_key() {
    let doors = Doors::open();
    // One of several parts, each of which is a key alone.
    let entries = [("remote_address", "203.0.113.9")];
    let forwarded = "X-Forwarded-For: 203.0.113.9";
    assert_eq!(doors.through("/either", &[forwarded]), 99);
    assert_eq!(doors.over_grpc(&entries), 98);
    assert_eq!(doors.over_http(&entries), 97);
    assert_eq!(doors.through("/either", &[forwarded]), 96);
    // Several parts together. Proxies tell the path with its query.
    assert_eq!(doors.through("/both?a=b", &[forwarded]), 99);
    for (index, path) in ["/both", "/both?a=b&ip=1.2.3.4", "/%62oth"].into_iter().enumerate() {
        let entries = [("remote_address", "203.0.113.9"), ("path", path)];
        let left = 98 - 2 * u64::try_from(index).expect("it is small");
        assert_eq!(doors.over_grpc(&entries), left, "{path}");
        assert_eq!(doors.over_http(&entries), left - 1, "{path}");
    }
    // A name in capitals, and a host with its port.
    assert_eq!(doors.through("/tenant", &["X-Tenant: a=b&c%"]), 99);
    for (host, left) in [("gateway.test", 98), ("Gateway.TEST:8080", 96)] {
        let entries = [("tenant", "a=b&c%"), ("authority", host)];
        assert_eq!(doors.over_grpc(&entries), left, "{host}");
        assert_eq!(doors.over_http(&entries), left - 1, "{host}");
    }
}

/// The JSON API takes a key as words with their values, too.
#[test]
fn a_question_has_the_counter_of_the_request_with_its_words() {
    let doors = Doors::open();
    assert_eq!(doors.through("/both", &["X-Forwarded-For: 203.0.113.9"]), 99);
    let words = json!({ "ip": "203.0.113.9", "path": "/both?a=b" });
    assert_eq!(doors.asked("both", &words), (200, Some(98)));
    assert_eq!(doors.asked("both", &json!("ip=203.0.113.9&path=/both")), (200, Some(97)));
    // A value names nothing but itself.
    let tenant = "x&host=gateway.test%26";
    assert_eq!(doors.through("/tenant", &[&format!("X-Tenant: {tenant}")]), 99);
    let words = json!({ "header:X-Tenant": tenant, "host": "gateway.test:80" });
    assert_eq!(doors.asked("tenant", &words), (200, Some(98)));
    assert_eq!(
        doors.asked("either", &json!({ "ip": "192.0.2.1", "api_key": "" })),
        (200, Some(99))
    );
    for key in [
        json!({ "ip": "api_key=victim" }),
        json!({ "ip": "192.0.2.1", "user": "ann" }),
        json!({}),
        json!(["192.0.2.1"]),
    ] {
        assert_eq!(doors.asked("either", &key).0, 400, "{key}");
    }
}

/// The value of an entry once was the text of a whole key, so a client could name another one.
#[test]
fn the_value_of_an_entry_names_no_other_key() {
    let doors = Doors::open();
    for value in ["api_key=victim", "ip=203.0.113.9", "203.0.113.9&path=/both"] {
        doors.over_grpc(&[("remote_address", value)]);
        doors.over_http(&[("remote_address", value)]);
        doors.over_grpc(&[("remote_address", value), ("path", "/both")]);
    }
    doors.over_grpc(&[("remote_address", "192.0.2.1"), ("path", "/both&ip=203.0.113.9")]);
    let forwarded = "X-Forwarded-For: 203.0.113.9";
    assert_eq!(doors.through("/either", &["X-Api-Key: victim"]), 99);
    assert_eq!(doors.through("/either", &[forwarded]), 99);
    assert_eq!(doors.through("/both", &[forwarded]), 99);
    // What shares no counter with the gateway is reported, without the values.
    let log = doors.gateway.log();
    let reports = || log.lines().filter(|it| it.contains("cannot be the key of their policy"));
    for policy in ["either", "both"] {
        let line = reports().find(|it| it.contains(&format!("policy={policy} ")));
        assert!(line.is_some_and(|it| it.contains("the value of ip: write an address")), "{log}");
    }
    assert!(!log.contains("victim"), "{log}");
}
