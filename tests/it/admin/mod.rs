//! The admin listener of a running gateway.

mod access;
mod api_keys;
mod calls;
mod cluster;
mod config;
mod counts;
mod crowd;
mod described;
mod explain;
mod files;
mod forwarders;
mod lists;
mod node;
mod outages;
mod page;
mod patches;
mod reveal;
mod secrets;
mod shared_configs;
mod shared_patches;
mod store;
mod top;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Client, Gateway, Response, eventually};

/// Long enough, and not like each other.
const OPERATE: &str = "operate-0123456789abcdef";
const READ: &str = "read-0123456789abcdef";
const METRICS: &str = "metrics-0123456789abcdef";

/// The section, with further fields.
fn section(fields: &str) -> String {
    format!(
        "admin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: oncall, role: operate, token: {OPERATE} }}, \
         {{ name: viewer, role: read, token: {READ} }}, \
         {{ name: scraper, role: metrics, token: {METRICS} }}], {fields} }}\n"
    )
}

/// A gateway that counts by `X-Who`, with the section `store` and further fields for the
/// admin listener.
fn gateway(store: &str, admin: &str) -> Gateway {
    Gateway::start(&yaml(store, admin))
}

fn yaml(store: &str, admin: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n{store}\n\
         policies:\n  \
           each: {{ key: \"header:x-who\", limit: 3/day }}\n  \
           open: {{ key: ip, limit: 1M/day }}\n\
         access: {{ office: {{ else: allow }} }}\n\
         routes: [{{ path: \"/*\", access: office, policies: [each, open], respond: {{ body: ok }} }}]\n{}",
        section(admin)
    )
}

/// A client of the admin listener.
struct AdminClient {
    address: SocketAddr,
    token: Option<String>,
    /// Whether it calls the listener for health checks, which serves less than the document says.
    is_probe: bool,
}

impl AdminClient {
    /// With this token, at the listener that `gateway` has besides its own one.
    fn new(gateway: &Gateway, token: &str) -> Self {
        Self { address: gateway.addresses()[1], token: Some(token.to_owned()), is_probe: false }
    }

    fn without_token(gateway: &Gateway) -> Self {
        Self { address: gateway.addresses()[1], token: None, is_probe: false }
    }

    fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "")
    }

    /// A request with further fields, over a connection of its own.
    fn send(&self, method: &str, path: &str, fields: &[&str], body: &str) -> Response {
        let host = format!("Host: {}", self.address);
        self.send_to(&host, method, path, fields, body)
    }

    /// The same with another `Host`.
    fn send_to(
        &self,
        host: &str,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &str,
    ) -> Response {
        let mut head = format!("{method} {path} HTTP/1.1\r\n{host}\r\nConnection: close\r\n");
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for field in fields {
            head.push_str(&format!("{field}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let mut client = Client::connect(self.address);
        client.send(format!("{head}\r\n{body}").as_bytes());
        let response = match path.starts_with("/v1/events") {
            true => first_events(&mut client),
            false => client.response(method),
        };
        if !self.is_probe {
            described::hold(self.address, method, path, &response);
        }
        response
    }
}

/// The beginning of a stream of events, or the answer instead of it.
fn first_events(client: &mut Client) -> Response {
    let mut response = client.head();
    response.body = match response.field("Content-Length").and_then(|it| it.parse().ok()) {
        Some(length) => client.exactly(length),
        None => client.chunk().expect("a whole chunk").unwrap_or_default(),
    };
    response
}

/// Waits until calls of the admin API have this result. There are 20 of them a second,
/// because a credential has 50.
fn settles(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || {
        thread::sleep(Duration::from_millis(50));
        condition()
    });
}

/// The codes of the reasons in the status. Those of a busy machine are not among them: other tests
/// run beside this one. None: the credential has made too many calls.
fn reasons(client: &AdminClient) -> Option<Vec<String>> {
    let mut status = client.get("/v1/status").json();
    let Value::Array(reasons) = status["reasons"].take() else { return None };
    let codes = reasons.iter().map(|it| it["code"].as_str().expect("a code").to_owned());
    Some(codes.filter(|it| !["slow_decisions", "worker_busy"].contains(&&**it)).collect())
}

/// Waits until the status has no reason, but for those of a busy machine.
fn is_well(client: &AdminClient) {
    settles("it is well", || reasons(client).is_some_and(|it| it.is_empty()));
}

/// A call as a request.
struct Made {
    method: String,
    path: String,
    fields: Vec<&'static str>,
    body: String,
}

impl Made {
    fn by(&self, client: &AdminClient) -> Response {
        client.send(&self.method, &self.path, &self.fields, &self.body)
    }
}

/// Every call, with the first example of its body.
fn calls(gateway: &Gateway) -> Vec<Made> {
    let document = described::document(gateway.addresses()[1]);
    let mut calls = Vec::new();
    for (path, item) in document["paths"].as_object().expect("an object") {
        let path = path.replace("{policy}", "each").replace("{key}", "ann");
        let path = path.replace("{request-id}", "none").replace("{file}", "style.css");
        let path = path.replace("{list}", "office").replace("{name}", "acme");
        let path = path.replace("{id}", "7f2m9qd0v3xk");
        assert!(!path.contains('{'), "a value is missing: {path}");
        let operations = item.as_object().expect("an object").iter();
        for (method, operation) in operations.filter(|(name, _)| *name != "parameters") {
            let examples = &operation["requestBody"]["content"]["application/json"]["examples"];
            let example = examples.as_object().and_then(|it| it.values().next());
            calls.push(Made {
                method: method.to_ascii_uppercase(),
                path: path.clone(),
                fields: example.iter().map(|_| "Content-Type: application/json").collect(),
                body: example.map_or_else(String::new, |it| it["value"].to_string()),
            });
        }
    }
    assert!(calls.len() >= 31, "{}", calls.len());
    calls
}

/// The calls that must be refused without a credential, whatever the document says.
fn guarded(gateway: &Gateway) -> Vec<Made> {
    let is_guarded = |path: &str| {
        path != "/openapi.json" && !path.ends_with(['z', '/']) && !path.starts_with("/page")
    };
    calls(gateway).into_iter().filter(|call| is_guarded(&call.path)).collect()
}

/// The statuses of `count` requests of this client to the gateway itself.
fn statuses(gateway: &Gateway, who: &str, count: usize) -> Vec<u16> {
    let mut client = gateway.client();
    (0..count).map(|_| client.get("/", &[&format!("X-Who: {who}")]).status).collect()
}
