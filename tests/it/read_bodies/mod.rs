//! Limits by values of the body: what is counted, what is forwarded, and the bounds of what is held.

mod bounds;
mod doors;
mod drawn;
mod evasion;
mod forwarding;
mod keys;
mod refusals;

use crate::support::{Client, Gateway, Origin, Response};

const JSON: &str = "Content-Type: application/json";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

/// A gateway in front of an origin, with one request a day for each key of the policy `p`, whose
/// other fields are given, and further fields of the route.
fn once_a_day(origin: &Origin, policy: &str, route: &str) -> Gateway {
    with_top(origin, policy, route, "")
}

/// The same, with further sections of the file.
fn with_top(origin: &Origin, policy: &str, route: &str, top: &str) -> Gateway {
    let limit = if policy.contains("limit:") { "" } else { ", limit: 1/day" };
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ p: {{ {policy}{limit} }} }}\n\
         routes: [{{ path: /*, policies: [p], upstream: app, {route} }}]\n{top}\n",
        origin.address()
    ))
}

/// The response to a POST over a new connection.
fn post(gateway: &Gateway, fields: &[&str], body: &[u8]) -> Response {
    gateway.client().request("POST", "/", fields, body)
}

/// The statuses of such requests in turn.
fn statuses<const N: usize>(gateway: &Gateway, fields: &[&str], bodies: [&str; N]) -> [u16; N] {
    bodies.map(|body| post(gateway, fields, body.as_bytes()).status)
}

/// The head of a request with a body of chunks, and the chunks.
fn chunked(fields: &str, chunks: &[&[u8]]) -> Vec<u8> {
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
    let mut bytes = head.into_bytes();
    for chunk in chunks {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(*chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// The response to exactly these bytes over a new connection.
fn send(gateway: &Gateway, bytes: &[u8]) -> Response {
    let mut client: Client = gateway.client();
    client.send(bytes);
    client.response("POST")
}

/// The memory that held bodies take, by the metric.
fn body_memory(gateway: &Gateway) -> u64 {
    let admin = gateway.addresses()[1];
    let mut client = Client::connect(admin);
    let token = "Authorization: Bearer metrics-0123456789abcdef";
    client.send(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n{token}\r\n\r\n").as_bytes());
    let metrics = client.response("GET").text();
    let line = metrics.lines().find(|line| line.starts_with("tollgate_body_memory_bytes "));
    let number = line.and_then(|line| line.rsplit(' ').next()).expect("the metric is there");
    number.parse().expect("a number")
}

/// The section of an admin listener.
const ADMIN: &str = "admin: { address: \"127.0.0.1:0\", tokens: [\
                     { name: scraper, role: metrics, token: metrics-0123456789abcdef }] }";
