//! Envoy's rate limit service over gRPC.

use std::fs;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

use crate::support::{Client, Gateway, eventually};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

#[derive(Clone, PartialEq, Message)]
pub(super) struct Question {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<Limit>,
    #[prost(message, optional, tag = "3")]
    hits: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative: bool,
}

/// The number of `DAY` in the protocol.
pub(super) const DAY: i32 = 4;

/// A limit that the question brings along.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Limit {
    #[prost(uint32, tag = "1")]
    pub(super) requests: u32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<Status>,
    #[prost(message, repeated, tag = "3")]
    fields: Vec<Entry>,
    #[prost(string, tag = "5")]
    body: String,
}

impl Answer {
    /// The value of a field for the client.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.key == name).map(|it| &*it.value)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub(super) remaining: u32,
}

/// A descriptor of these entries.
pub(super) fn descriptor(entries: &[(&str, &str)], hits: Option<u64>) -> Descriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    let entries = entries.iter().map(entry).collect();
    Descriptor { entries, limit: None, hits, is_negative: false }
}

/// Makes one call on a connection of its own: the fields with the status, and the message.
fn call(address: SocketAddr, path: &str, message: &impl Message) -> (HeaderMap, Bytes) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        spawn_local(connection);
        let request = Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a request");
        let (response, mut body) = client.send_request(request, false).expect("a stream");
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
        let framed = [&[0][..], &length, &message].concat();
        body.send_data(framed.into(), true).expect("the stream is open");
        let (head, mut body) = response.await.expect("a response").into_parts();
        assert_eq!(head.status, 200);
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            bytes.extend_from_slice(&data.expect("the body is complete"));
        }
        let trailers = body.trailers().await.expect("the body is complete");
        (trailers.unwrap_or(head.headers), Bytes::from(bytes))
    })
}

/// The answer to descriptors in a domain.
pub(super) fn ask(address: SocketAddr, domain: &str, descriptors: Vec<Descriptor>) -> Answer {
    let question = Question { domain: domain.into(), descriptors, hits: 0 };
    let (status, message) = call(address, SHOULD_RATE_LIMIT, &question);
    assert_eq!(status["grpc-status"], "0", "{status:?}");
    Answer::decode(&message[5..]).expect("an answer")
}

/// The status of a call about descriptors in a domain.
pub(super) fn status_of_call(
    address: SocketAddr,
    domain: &str,
    descriptors: Vec<Descriptor>,
) -> String {
    let question = Question { domain: domain.into(), descriptors, hits: 0 };
    let (status, _) = call(address, SHOULD_RATE_LIMIT, &question);
    status["grpc-status"].to_str().expect("ASCII").to_owned()
}

/// What the service for health says of all services.
pub(super) fn status_of_health(address: SocketAddr) -> u8 {
    let all = Entry::default();
    let (status, message) = call(address, "/grpc.health.v1.Health/Check", &all);
    assert_eq!(status["grpc-status"], "0");
    message[message.len() - 1]
}

/// Whether single hits are over their limit.
fn over(address: SocketAddr, domain: &str, entries: &[(&str, &str)], times: usize) -> Vec<bool> {
    let hit = || ask(address, domain, vec![descriptor(entries, None)]).code == 2;
    (0..times).map(|_| hit()).collect()
}

fn limit(requests: u32) -> String {
    let rate = format!("rate_limit: {{ unit: day, requests_per_unit: {requests} }}");
    format!("domain: d\ndescriptors:\n  - {{ key: k, {rate} }}\n")
}

/// A gateway with this file in its directory, and a native domain.
fn gateway(file: &str) -> (Gateway, SocketAddr, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("d.yaml"), file).expect("it can be written");
    let gateway = Gateway::start(&format!(
        "policies:\n  logins:\n    limit: 2/day\n    algorithm: fixed_window\n    key: ip\n    \
         response: {{ status: 429, content_type: text/plain, body: \"wait\" }}\n\
         check:\n  http: {{ address: \"127.0.0.1:0\" }}\n  \
           grpc:\n    address: \"127.0.0.1:0\"\n    envoy_config: {:?}\n    \
         domains: {{ edge: [{{ match: [generic_key=login, remote_address], policy: logins, \
         key: {{ ip: remote_address }} }}] }}\n",
        directory.path()
    ));
    let [_, address] = gateway.addresses()[..] else { panic!("two listeners") };
    (gateway, address, directory)
}

#[test]
fn descriptors_are_counted_under_both_kinds_of_domains() {
    let (_gateway, address, _directory) = gateway(&limit(3));
    let entries = [("k", "v")];
    assert_eq!(over(address, "d", &entries, 4), [false, false, false, true]);
    assert_eq!(over(address, "unknown", &entries, 4), [false; 4]);
    // A report of 5 tokens beyond the limit counts, and the next check hears of it.
    let hits = |value, hits| descriptor(&[("k", value)], Some(hits));
    let codes = |descriptors| {
        let answer = ask(address, "d", descriptors);
        answer.statuses.iter().map(|it| (it.code, it.remaining)).collect::<Vec<_>>()
    };
    assert_eq!(codes(vec![hits("t", 0), hits("t", 5)]), [(1, 3), (2, 0)]);
    assert_eq!(codes(vec![hits("t", 0)]), [(2, 0)]);
    let back = Descriptor { is_negative: true, ..hits("t", 4) };
    assert_eq!(codes(vec![back, hits("t", 1)]), [(1, 2), (1, 1)]);
    assert_eq!(codes(vec![hits("u", u64::from(u32::MAX))]), [(2, 0)]);

    let login = [("generic_key", "login"), ("remote_address", "10.0.0.1")];
    assert_eq!(over(address, "edge", &login, 3), [false, false, true]);
    let refused = ask(address, "edge", vec![descriptor(&login, None)]);
    assert_eq!((&*refused.body, refused.field("content-type")), ("wait", Some("text/plain")));
    assert!(refused.field("ratelimit").is_some_and(|it| it.starts_with("\"logins\";r=0;t=")));
    assert!(
        refused.field("retry-after").is_some_and(|it| it.parse::<u64>().is_ok_and(|it| it > 0))
    );
    let other = [("generic_key", "login"), ("remote_address", "10.0.0.2")];
    assert_eq!(over(address, "edge", &other, 1), [false]);
    // Its limit was higher. One hit is given back, and the counter is still above the limit of now.
    let many = [("generic_key", "login"), ("remote_address", "10.0.0.3")];
    let limit = Some(Limit { requests: 10, unit: DAY });
    let raised = Descriptor { limit, ..descriptor(&many, Some(8)) };
    let back = |hits| Descriptor { is_negative: true, ..descriptor(&many, Some(hits)) };
    let codes = [raised, back(1), back(6)].map(|it| ask(address, "edge", vec![it]).code);
    assert_eq!(codes, [1, 2, 1]);

    let malformed = Question { domain: String::new(), descriptors: Vec::new(), hits: 0 };
    let (status, _) = call(address, SHOULD_RATE_LIMIT, &malformed);
    assert_eq!((&status["grpc-status"], &status["grpc-message"]).0, "3");
    assert_eq!(call(address, "/other.Service/Method", &malformed).0["grpc-status"], "12");
    let large = Question { domain: "x".repeat(300_000), ..malformed };
    assert_eq!(call(address, SHOULD_RATE_LIMIT, &large).0["grpc-status"], "8");
    let named = |name: &str| Entry { key: name.into(), value: String::new() };
    let (status, message) = call(address, "/grpc.health.v1.Health/Check", &named("ratelimit"));
    assert_eq!((status["grpc-status"].as_bytes(), &message[5..]), (&b"0"[..], &[8, 1][..]));
    let (status, _) = call(address, "/grpc.health.v1.Health/Check", &named("other"));
    assert_eq!(status["grpc-status"], "5");
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_eq!(call(address, reflection, &named("h")).0["grpc-status"], "12", "it is off");
}

#[test]
fn the_service_is_asked_over_http_too() {
    let (gateway, address, _directory) = gateway(&limit(3));
    let mut client = Client::connect(gateway.addresses()[0]);
    let mut ask = |body: &str, fields: &[&str]| {
        let answer = client.request("POST", "/json", fields, body.as_bytes());
        (answer.status, serde_json::from_slice::<Value>(&answer.body).unwrap_or_default())
    };
    let hit = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
    let (status, answer) = ask(hit, &["Content-Type: application/x-www-form-urlencoded"]);
    let limit = json!({ "requestsPerUnit": 3, "unit": "DAY" });
    let told = &answer["statuses"][0];
    assert_eq!((status, &answer["overallCode"], &told["code"]), (200, &json!("OK"), &json!("OK")));
    assert_eq!((&told["currentLimit"], &told["limitRemaining"]), (&limit, &json!(2)));
    // It is the counter of the calls over gRPC.
    assert_eq!(over(address, "d", &[("k", "v")], 2), [false; 2]);
    let (status, answer) = ask(hit, &[]);
    assert_eq!((status, &answer["overallCode"]), (429, &json!("OVER_LIMIT")));
    assert!(answer["responseHeadersToAdd"].to_string().contains("retry-after"), "{answer}");
    let (status, problem) = ask(r#"{"domain": "d", "descriptors": [{"entries": [7]}]}"#, &[]);
    assert_eq!((status, &problem["pointer"]), (400, &json!("/descriptors/0/entries/0")));
    assert_eq!(ask(r#"{"domain": "d"}"#, &[]).0, 400, "the service does not take it");
    assert_eq!(ask(hit, &["Origin: https://a.test"]).0, 403);
    assert_eq!(client.get("/json", &[]).status, 405);

    let healthy = client.get("/healthcheck", &[]);
    assert_eq!((healthy.status, &*healthy.body), (200, &b"OK"[..]));
    gateway.terminate();
    eventually("it is not healthy any more", || client.get("/healthcheck", &[]).status == 500);
}

/// The same bound holds over gRPC and over HTTP.
#[test]
fn a_question_has_at_most_256_kib() {
    const MOST: usize = 256 * 1024;
    let (gateway, address, _directory) = gateway(&limit(3));
    let over_grpc = |bytes: usize| {
        let mut question = Question { domain: "d".into(), descriptors: Vec::new(), hits: 0 };
        // The rest is the tags and lengths.
        let value = "v".repeat(bytes - 18);
        question.descriptors.push(descriptor(&[("k", &value)], None));
        assert_eq!(question.encoded_len(), bytes);
        call(address, SHOULD_RATE_LIMIT, &question).0["grpc-status"].clone()
    };
    assert_eq!([MOST, MOST + 1].map(over_grpc), ["0", "8"]);
    let over_http = |bytes: usize| {
        let hit = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
        let body = format!("{hit}{}", " ".repeat(bytes - hit.len()));
        let mut client = Client::connect(gateway.addresses()[0]);
        client.request("POST", "/json", &[], body.as_bytes()).status
    };
    assert_eq!([MOST, MOST + 1].map(over_http), [200, 413]);
}

#[test]
fn a_changed_directory_is_read_again_and_a_faulty_one_changes_nothing() {
    let (gateway, address, directory) = gateway(&limit(3));
    let remaining = |value: &str| {
        ask(address, "d", vec![descriptor(&[("k", value)], Some(0))]).statuses[0].remaining
    };
    assert_eq!(remaining("v"), 3);
    fs::write(directory.path().join("d.yaml"), limit(30)).unwrap();
    eventually("the file is read again", || remaining("v") == 30);
    fs::write(directory.path().join("e.yaml"), "domain: d\n").unwrap();
    let why = "another file is about the domain";
    eventually("the mistake is reported", || gateway.log().contains(why));
    assert_eq!(remaining("v"), 30);
}

/// Regression: a limit in the question that the policy cannot count was left out, and the limit of
/// the policy held.
#[test]
fn a_limit_in_the_question_that_does_not_fit_is_a_mistake() {
    let gateway = Gateway::start(
        "policies:\n  \
           day: { key: ip, limit: 1000/day, algorithm: fixed_window, calendar: Europe/Berlin }\n  \
           log: { key: ip, limit: 5/minute, algorithm: sliding_log }\n\
         check: { grpc: { address: \"127.0.0.1:0\", domains: { edge: [\
           { match: [day], policy: day }, { match: [log], policy: log }] } } }\n",
    );
    let end = |key, requests, unit| {
        let limit = Some(Limit { requests, unit });
        let plain = descriptor(&[("other", "v")], None);
        let limited = Descriptor { limit, ..descriptor(&[(key, "v")], None) };
        let question =
            Question { domain: "edge".into(), descriptors: vec![plain, limited], hits: 0 };
        let (end, _) = call(gateway.address(), SHOULD_RATE_LIMIT, &question);
        let text = |name: &str| end.get(name).map(|it| it.to_str().expect("ASCII").to_owned());
        (text("grpc-status").expect("a status"), text("grpc-message").unwrap_or_default())
    };
    for (key, requests, unit) in [("day", 1, 1), ("log", 100_000, 2)] {
        let (status, message) = end(key, requests, unit);
        assert_eq!(status, "3", "{key}");
        let is_named =
            message.contains(&format!("descriptors[1].limit does not fit the policy {key}:"));
        assert!(is_named, "{message}");
    }
    assert_eq!(end("day", 7, 4).0, "0");
    assert_eq!(end("log", 7, 2).0, "0");
}

/// No part of the directory can be used then, but all of it is watched as before.
#[test]
fn a_nested_file_that_cannot_be_read_is_noticed_when_it_is_corrected() {
    let (gateway, address, directory) = gateway(&limit(3));
    let remaining =
        || ask(address, "d", vec![descriptor(&[("k", "v")], Some(0))]).statuses[0].remaining;
    let other = |requests| limit(requests).replace("domain: d", "domain: other");
    let nested = directory.path().join("sub/b.yaml");
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(&nested, other(1)).unwrap();
    fs::write(directory.path().join("d.yaml"), limit(30)).unwrap();
    eventually("the files are read", || remaining() == 30);
    let refusals = || gateway.log().matches("it is not UTF-8 text").count();
    fs::write(&nested, b"\xff").unwrap();
    eventually("the file is refused", || refusals() >= 1);
    fs::write(directory.path().join("d.yaml"), limit(40)).unwrap();
    eventually("a file beside it is watched, too", || refusals() >= 2);
    assert_eq!(remaining(), 30, "all limits are those from before");
    fs::write(&nested, other(2)).unwrap();
    eventually("the corrected file is read", || remaining() == 40);
}
