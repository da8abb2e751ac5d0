//! What requests cost whose response is a failure of the gateway itself. The upstream may process and
//! bill a request that it has got, so what was reserved stays charged. A request that was not sent
//! costs nothing.

use crate::support::frames::{CANCEL, HEADERS, REFUSED_STREAM, reset};
use crate::support::{Endpoint, Gateway, Origin, Reserved};
use crate::traffic::{TOKEN, metric};

/// Reads requests and never answers.
fn silent() -> Origin {
    Origin::serving(|_, read| while read().is_some() {})
}

/// Reads each request and closes the connection.
fn closing() -> Origin {
    Origin::serving(|_, read| {
        read();
    })
}

fn answering(answer: &'static str) -> Origin {
    Origin::answering(|_| answer.to_owned())
}

/// Resets each stream with this code.
fn resetting(code: u32) -> Endpoint {
    Endpoint::answering(move |_, frame| match frame.kind {
        HEADERS => reset(frame.stream, code),
        _ => Vec::new(),
    })
}

/// Upstreams, by their names.
struct Upstreams {
    origins: Vec<(&'static str, Origin)>,
    endpoints: Vec<(&'static str, Endpoint)>,
    closed: Reserved,
}

impl Upstreams {
    fn new() -> Self {
        let large = "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n";
        let unavailable = "HTTP/1.1 503 Unavailable\r\nContent-Length: 2\r\n\r\n{}";
        Self {
            origins: vec![
                ("silent", silent()),
                ("closing", closing()),
                ("large", answering(large)),
                ("invalid", answering("HTTP/1.1 none\r\n\r\n")),
                ("unavailable", answering(unavailable)),
            ],
            endpoints: vec![
                ("resetting", resetting(CANCEL)),
                ("refusing", resetting(REFUSED_STREAM)),
                ("silent2", Endpoint::answering(|_, _| Vec::new())),
            ],
            closed: Reserved::new(),
        }
    }

    /// A gateway with this policy and these routes to the upstreams.
    fn behind(&self, policy: &str, routes: &[(&str, &str)]) -> Gateway {
        let origins =
            self.origins.iter().map(|(name, it)| (*name, format!("http://{}", it.address())));
        let endpoints = self.endpoints.iter().map(|(name, it)| (*name, it.url()));
        let closed = ("closed", format!("http://{}", self.closed.address()));
        let upstreams: String = origins
            .chain(endpoints)
            .chain([closed])
            .map(|(name, url)| format!("  {name}: \"{url}\"\n"))
            .collect();
        let routes: String = routes
            .iter()
            .map(|(path, rest)| format!("- {{ path: {path}, policies: [p], {rest} }}\n"))
            .collect();
        Gateway::start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             admin: {{ address: \"127.0.0.1:0\", tokens: [\
             {{ name: m, role: metrics, token: {TOKEN} }}] }}\n\
             runtime: {{ workers: 1 }}\n\
             upstreams:\n{upstreams}\
             policies: {{ p: {{ key: ip, limit: 10000/day, {policy} }} }}\n\
             routes:\n{routes}"
        ))
    }
}

const RETRIES: &str = "retries: { on: [reset], methods: [POST], attempts: 1 }";

/// Each failure, and whether an endpoint has got the request.
#[test]
fn what_was_reserved_stays_charged_once_an_endpoint_has_the_request() {
    let fallback = |first: &str, on: &str| {
        format!("upstream: {first}, fallback: {{ upstream: closed, on: [{on}] }}, {RETRIES}")
    };
    let after_reset = fallback("closing", "reset");
    let after_status = fallback("unavailable", "\"503\"");
    let cases = [
        ("/late", "upstream: silent, timeouts: { response: 300ms }", 504, true),
        ("/overdue", "upstream: silent, timeouts: { request: 300ms }", 504, true),
        ("/late2", "upstream: silent2, timeouts: { response: 300ms }", 504, true),
        ("/overdue2", "upstream: silent2, timeouts: { request: 300ms }", 504, true),
        ("/closing", "upstream: closing", 502, true),
        ("/resetting", "upstream: resetting", 502, true),
        ("/large", "upstream: large, max_response: 10", 502, true),
        ("/invalid", "upstream: invalid", 502, true),
        ("/after-reset", &after_reset, 502, true),
        ("/closed", "upstream: closed", 502, false),
        // The endpoint says that it has not processed the request.
        ("/refusing", "upstream: refusing", 502, false),
        // The first upstream has answered, and the fallback has not got the request.
        ("/after-status", &after_status, 502, false),
        // An error of an upstream.
        ("/unavailable", "upstream: unavailable", 503, false),
    ];
    let upstreams = Upstreams::new();
    let policy = "cost: { reserve: 50, settle: { usage: openai } }";
    let gateway = upstreams.behind(policy, &cases.map(|(path, route, ..)| (path, route)));
    let mut left = 10_000;
    let mut kept = 0;
    for ((path, _, status, is_kept), ended) in cases.into_iter().zip(1..) {
        let body = b"{\"messages\":[]}";
        let response = gateway.client().request("POST", path, &["Connection: close"], body);
        assert_eq!(response.status, status, "{path}: {response:?}");
        assert_eq!(response.number("X-Ratelimit-Remaining"), left - 50, "before {path}");
        let line = &gateway.access_lines(ended)[ended - 1];
        let told = if is_kept { "broken".into() } else { serde_json::Value::Null };
        assert_eq!(line["unsettled"], told, "{path}: {line}");
        left -= if is_kept { 50 } else { 0 };
        kept += u32::from(is_kept);
    }
    let labels = ["cause=\"broken\"", "policy=\"p\""];
    assert_eq!(metric(&gateway, "tollgate_unsettled_requests_total", &labels), f64::from(kept));
    let log = gateway.log();
    let warnings = log.lines().filter(|line| line.contains("the cost of a request is not known"));
    assert_eq!(warnings.filter(|line| line.contains("broken")).count(), 1, "{log}");
}

/// Regression: with an authorizer, the attempts were counted for the first decision only, which has
/// nothing to settle. Where the upstream has a bound, the second one did not learn of them.
#[test]
fn a_policy_that_needs_the_authorizer_keeps_its_reservation_too() {
    let silent = silent();
    let sso = answering("HTTP/1.1 200 OK\r\nRemote-User: ann\r\nContent-Length: 0\r\n\r\n");
    for bound in ["", ", max_in_flight: 9", ", max_connections: 9"] {
        let gateway = Gateway::start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             runtime: {{ workers: 1 }}\n\
             authorizers: {{ sso: {{ http: \"http://{}/\", take: [remote-user] }} }}\n\
             policies:\n  \
               fixed: {{ key: ip, limit: 100/day }}\n  \
               p: {{ key: \"authorizer:remote-user\", limit: 1000/day, missing_key: deny, \
                 cost: {{ reserve: 100, settle: {{ body: /n }} }} }}\n\
             routes: [{{ path: /*, upstream: a, authorizer: sso, policies: [fixed, p], \
               timeouts: {{ response: 300ms }} }}]\n\
             upstreams: {{ a: {{ endpoints: [\"http://{}\"]{bound} }} }}\n",
            sso.address(),
            silent.address(),
        ));
        for ended in 1..=2 {
            let response = gateway.client().get("/", &["Connection: close"]);
            assert_eq!(response.status, 504, "{bound}");
            let line = &gateway.access_lines(ended)[ended - 1];
            assert_eq!(line["unsettled"], "broken", "{bound}: {line}");
        }
    }
}

/// The upstream has read the estimated input, and its output is not known.
#[test]
fn with_estimate_the_input_counts_of_a_request_that_was_not_answered() {
    let upstreams = Upstreams::new();
    let policy = "algorithm: fixed_window, \
                  cost: { reserve: {}, settle: { usage: openai, unsettled: estimate } }";
    let routes =
        [("/late", "upstream: silent, timeouts: { response: 300ms }"), ("/x", "respond: {}")];
    let gateway = upstreams.behind(policy, &routes);
    let body = format!("{{\"max_tokens\":1000,\"x\":\"{}\"}}", "x".repeat(276));
    assert_eq!(body.len(), 302);
    let json = ["Content-Type: application/json"];
    let response = gateway.client().request("POST", "/late", &json, body.as_bytes());
    assert_eq!((response.status, response.number("X-Ratelimit-Remaining")), (504, 10_000 - 1_101));
    assert_eq!(gateway.access_lines(1)[0]["unsettled"], "broken");
    assert_eq!(gateway.client().get("/x", &[]).number("X-Ratelimit-Remaining"), 10_000 - 101);
}

/// The same holds for other places of a cost. The length of a response is known in any case.
#[test]
fn a_failure_of_the_gateway_is_no_answer_for_other_meters() {
    let upstreams = Upstreams::new();
    for (settle, units, cause) in [
        ("header: x-n", [0, 50], "broken"),
        ("json: /status", [0, 50], "broken"),
        ("body: /status", [0, 50], "broken"),
        ("response_bytes: 1MiB", [1, 1], ""),
    ] {
        let policy = format!("cost: {{ reserve: 50, settle: {{ {settle} }} }}");
        let routes = [("/closed", "upstream: closed"), ("/closing", "upstream: closing")];
        let gateway = upstreams.behind(&policy, &routes);
        let mut left = 10_000;
        for ((path, units), told) in ["/closed", "/closing"].into_iter().zip(units).zip(["", cause])
        {
            let mut client = gateway.client();
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.send(request.as_bytes());
            let response = client.response("GET");
            assert_eq!(response.status, 502, "{settle} {path}");
            assert_eq!(response.number("X-Ratelimit-Remaining"), left - 50, "{settle} {path}");
            left -= units;
            let ended = if path == "/closed" { 1 } else { 2 };
            let line = &gateway.access_lines(ended)[ended - 1];
            assert_eq!(line["unsettled"].as_str().unwrap_or_default(), told, "{settle} {line}");
        }
        let response = gateway.client().get("/closed", &[]);
        assert_eq!(response.number("X-Ratelimit-Remaining"), left - 50, "{settle}");
    }
}
