//! Costs of requests that are known only from the response.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::mpsc;

use crate::support::frames::{DATA, HEADERS, frame, head};
use crate::support::{Client, Endpoint, Gateway, Origin, StoreKind, on_every_store};
use crate::traffic::{TOKEN, metric};

on_every_store!(
    a_field_or_a_document_of_the_response_settles_the_cost,
    a_client_that_has_spent_more_than_remained_is_in_debt,
    a_stream_of_events_is_relayed_at_once_and_its_last_usage_is_charged,
    a_response_that_ends_with_trailers_settles_the_cost,
    a_response_that_ends_before_it_states_its_cost_stays_charged,
    a_response_costs_units_of_its_length,
    one_url_may_answer_a_document_events_or_lines,
);

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Transfer-Encoding: chunked\r\n\r\n";
const TOKENS: &str = "key: ip, limit: 10000/day, \
                      cost: { reserve: 2000, settle: { sse_json: /usage/total_tokens } }";

/// The answer of a language model.
const ANSWER: &str =
    r#"{"choices":[],"usage":{"prompt_tokens":300,"completion_tokens":21,"total_tokens":321}}"#;
const ANSWERS: &str =
    "key: ip, limit: 10000/day, cost: { reserve: 2000, settle: { usage: openai } }";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The units that remain after one more request has reserved its part.
fn remaining(client: &mut Client) -> u64 {
    client.get("/", &[]).number("X-Ratelimit-Remaining")
}

/// Responds with the last segment of the path as the cost.
fn telling() -> Origin {
    Origin::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        let cost = path.rsplit('/').next().unwrap_or_default();
        let body = format!("{{\"text\":\"hi\",\"usage\":{{\"total_tokens\":{cost}}}}}");
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nX-Tokens: {cost}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    })
}

fn a_field_or_a_document_of_the_response_settles_the_cost(store: StoreKind) {
    let origin = telling();
    for told in ["header: x-tokens", "json: /usage/total_tokens"] {
        let policy =
            format!("key: ip, limit: 1000/day, cost: {{ reserve: 50, settle: {{ {told} }} }}");
        let gateway = store.limiting(&origin, &policy);
        let mut client = gateway.client();
        let left = [7, 70, 0, 50].map(|tokens| {
            let response = client.get(&format!("/{tokens}"), &[]);
            assert_eq!(response.json()["usage"]["total_tokens"], tokens);
            response.number("X-Ratelimit-Remaining")
        });
        assert_eq!(left, [950, 943, 873, 873], "{told}");
    }
}

fn a_client_that_has_spent_more_than_remained_is_in_debt(store: StoreKind) {
    let origin = telling();
    let policy = "key: ip, limit: 100/day, cost: { reserve: 1, settle: { header: x-tokens } }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    assert_eq!(client.get("/150", &[]).status, 200);
    let refused = client.get("/1", &[]);
    assert_eq!((refused.status, refused.number("X-Ratelimit-Remaining")), (429, 0));
    assert_eq!(origin.received().len(), 1);
}

fn a_stream_of_events_is_relayed_at_once_and_its_last_usage_is_charged(store: StoreKind) {
    let (seen, sees) = mpsc::channel();
    let sees = Mutex::new(sees);
    let first = "data: {\"text\":\"a\",\"usage\":{\"total_tokens\":5}}\n\n";
    let last = "data: {\"usage\":{\"total_tokens\":321}}\n\ndata: [DONE]\n\n";
    let origin = Origin::serving(move |stream, read| {
        while read().is_some() {
            let _ = stream.write_all(format!("{STREAM}{}", chunk(first)).as_bytes());
            if sees.lock().expect("no thread panics with it").recv().is_err() {
                return;
            }
            let (half, rest) = last.split_at(20);
            let end = format!("{}{}0\r\n\r\n", chunk(half), chunk(rest));
            let _ = stream.write_all(end.as_bytes());
        }
    });
    let gateway = store.limiting(&origin, TOKENS);
    let mut client = gateway.client();
    for left in [8_000, 7_679, 7_358] {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\n\r\n");
        assert_eq!(client.head().number("X-Ratelimit-Remaining"), left);
        // The origin sends the rest after this part has arrived.
        assert_eq!(client.chunk().expect("a chunk").as_deref(), Some(first.as_bytes()));
        seen.send(()).expect("the origin waits");
        let mut rest = Vec::new();
        while let Some(piece) = client.chunk().expect("a chunk") {
            rest.extend(piece);
        }
        assert_eq!(String::from_utf8_lossy(&rest), last);
    }
    for request in origin.received() {
        assert_eq!(request.fields("accept-encoding"), ["identity"]);
    }
}

fn a_response_that_ends_with_trailers_settles_the_cost(store: StoreKind) {
    let origin = Origin::answering(|_| {
        let event = chunk(&format!("data: {ANSWER}\n\ndata: [DONE]\n\n"));
        format!("{STREAM}{event}0\r\nx-end: 1\r\n\r\n")
    });
    let gateway = store.limiting(&origin, ANSWERS);
    let mut client = gateway.client();
    assert_eq!([(); 3].map(|()| remaining(&mut client)), [8_000, 7_679, 7_358]);
}

fn a_response_that_ends_before_it_states_its_cost_stays_charged(store: StoreKind) {
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let _ = stream.write_all(format!("{STREAM}{}", chunk("data: {}\n\n")).as_bytes());
            if request.line().contains("/breaks") {
                return;
            }
            if !request.line().contains("/hangs") {
                let _ = stream.write_all(b"0\r\n\r\n");
            }
        }
    });
    let gateway = store.limiting(&origin, TOKENS);
    let mut leaving = gateway.client();
    leaving.send(b"GET /hangs HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(leaving.head().number("X-Ratelimit-Remaining"), 8_000);
    drop(leaving);
    assert_eq!(gateway.access_lines(1).len(), 1, "it has ended");
    let mut broken = gateway.client();
    broken.send(b"GET /breaks HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(broken.head().number("X-Ratelimit-Remaining"), 6_000);
    broken.rest();
    let mut client = gateway.client();
    assert_eq!([0; 2].map(|_| remaining(&mut client)), [4_000, 2_000]);
}

fn a_response_costs_units_of_its_length(store: StoreKind) {
    let origin = Origin::answering(|_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n{}", "x".repeat(3_000))
    });
    let policy = "key: ip, limit: 100/day, cost: { reserve: 1, settle: { response_bytes: 1KiB } }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    assert_eq!([0; 3].map(|_| remaining(&mut client)), [99, 96, 93]);
}

fn one_url_may_answer_a_document_events_or_lines(store: StoreKind) {
    const FORMS: [(&str, &str); 3] = [
        ("application/json", r#"{"usage":{"total_tokens":7}}"#),
        ("text/event-stream", "data: {\"usage\":{\"total_tokens\":70}}\n\ndata: [DONE]\n\n"),
        ("application/x-ndjson", "{}\n{\"usage\":{\"total_tokens\":1}}\n"),
    ];
    let origin = Origin::answering(|request| {
        let wanted = request.line().split(['?', ' ']).nth(2).unwrap_or_default();
        let (name, body) = FORMS[wanted.parse::<usize>().unwrap_or_default()];
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: {name}\r\nContent-Length: {length}\r\n\r\n{body}")
    });
    let policy = "key: ip, limit: 1000/day, \
                  cost: { reserve: 50, settle: { body: /usage/total_tokens } }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    let left = [0, 1, 2, 0].map(|form| {
        let response = client.get(&format!("/v1/chat?{form}"), &[]);
        assert_eq!(response.text(), FORMS[form].1);
        response.number("X-Ratelimit-Remaining")
    });
    assert_eq!(left, [950, 943, 873, 872]);
}

#[test]
fn tokens_are_counted_by_their_weights_and_stand_in_the_access_log() {
    const USAGE: &str = r#"{"usage":{"prompt_tokens":100,"completion_tokens":7,
        "prompt_tokens_details":{"cached_tokens":30}}}"#;
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let path = request.line().split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = |status: &str, length: usize, body: &str| {
                format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                )
            };
            let answer = match path.as_str() {
                "/failed" => answer("400 Bad Request", 2, "{}"),
                "/broken" => answer("200 OK", USAGE.len() + 9, USAGE),
                _ => answer("200 OK", USAGE.len(), USAGE),
            };
            let _ = stream.write_all(answer.as_bytes());
            if path == "/broken" {
                return;
            }
        }
    });
    let policy = "key: ip, limit: 10000/day, cost: { reserve: 50, \
                  settle: { usage: openai, weights: { cache_read: 10%, output: 200% } } }";
    let gateway = Gateway::limiting_with(&origin, policy, "runtime: { workers: 1 }");
    // 70 + 10 % of 30 + 200 % of 7.
    const COST: u64 = 87;
    let mut left = Vec::new();
    for (path, ended) in ["/", "/failed", "/broken", "/"].into_iter().zip(1..) {
        let mut client = gateway.client();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.send(request.as_bytes());
        left.push(client.head().number("X-Ratelimit-Remaining"));
        client.rest();
        drop(client);
        gateway.access_lines(ended);
    }
    // An error without tokens costs nothing. What broke off costs what it stated, because that is
    // more than what was reserved.
    let expected = [0, COST, COST, 2 * COST].map(|spent| 10_000 - 50 - spent);
    assert_eq!(left, expected);
    let lines = gateway.access_lines(4);
    let tokens = |line: usize| {
        ["tokens_in", "tokens_cached", "tokens_out"].map(|name| lines[line][name].as_u64())
    };
    assert_eq!(tokens(0), [Some(100), Some(30), Some(7)]);
    assert_eq!(tokens(1), [None; 3]);
    assert_eq!((tokens(2), &lines[2]["unsettled"]), (tokens(0), &"broken".into()));
    assert!(lines[3]["unsettled"].is_null() && lines[1]["unsettled"].is_null());
}

/// A gateway that counts the tokens of answers of this endpoint.
fn of_answers(endpoint: &Endpoint) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [{:?}] }} }}\n\
         policies: {{ p: {{ {ANSWERS} }} }}\n\
         routes: [{{ path: /*, policies: [p], upstream: app }}]\n",
        endpoint.url()
    ))
}

/// The server needs no more than the announced length.
#[test]
fn a_response_whose_stream_stays_open_behind_its_length_settles_the_cost() {
    let endpoint = Endpoint::answering(|_, request| {
        let length = ANSWER.len().to_string();
        let fields = [(":status", "200"), ("content-length", &*length)];
        let body = frame(DATA, 0, request.stream, ANSWER.as_bytes());
        let response = [head(request.stream, &fields, false), body].concat();
        if request.kind == HEADERS { response } else { Vec::new() }
    });
    let gateway = of_answers(&endpoint);
    let mut client = gateway.client();
    assert_eq!([(); 3].map(|()| remaining(&mut client)), [8_000, 7_679, 7_358]);
}

/// The server does not ask for a body of length 0, so it does not see the end of the stream.
#[test]
fn a_response_of_length_0_whose_stream_stays_open_has_ended() {
    let endpoint = Endpoint::answering(|_, request| match request.kind {
        HEADERS => head(request.stream, &[(":status", "200"), ("content-length", "0")], false),
        _ => Vec::new(),
    });
    let gateway = of_answers(&endpoint);
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    assert_eq!(gateway.access_lines(1)[0]["unsettled"], "absent");
}

/// A load balancer may compress its own errors, although the gateway asks for `identity`.
#[test]
fn a_compressed_error_of_the_upstream_costs_nothing() {
    let origin = Origin::answering(|request| {
        let status = if request.line().contains("/failed") { "503 Away" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}")
    });
    let gateway = Gateway::limiting_with(&origin, ANSWERS, "runtime: { workers: 1 }");
    let mut left = Vec::new();
    for (path, ended) in ["/failed", "/fine", "/failed"].into_iter().zip(1..) {
        left.push(gateway.client().get(path, &[]).number("X-Ratelimit-Remaining"));
        gateway.access_lines(ended);
    }
    assert_eq!(left, [8_000, 8_000, 6_000]);
    let lines = gateway.access_lines(3);
    let told = [0, 1, 2].map(|line: usize| lines[line]["unsettled"].clone());
    assert_eq!(told, [serde_json::Value::Null, "encoded".into(), serde_json::Value::Null]);
}

#[test]
fn a_request_whose_cost_is_not_known_is_counted_and_logged_with_the_cause() {
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let part = |fields: &str| {
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{fields}\r\n\r\n{{}}")
            };
            let answer = match request.line().split(' ').nth(1) {
                Some("/absent") => part("Content-Length: 2"),
                Some("/encoded") => part("Content-Length: 2\r\nContent-Encoding: br"),
                _ => part("Content-Length: 3"),
            };
            let _ = stream.write_all(answer.as_bytes());
            if request.line().contains("/broken") {
                return;
            }
        }
    });
    let policy = "key: ip, limit: 1000/day, cost: { reserve: 50, settle: { body: /n } }";
    let top = format!(
        "runtime: {{ workers: 1 }}\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: m, role: metrics, token: {TOKEN} }}] }}"
    );
    let gateway = Gateway::limiting_with(&origin, policy, &top);
    let paths = ["/absent", "/absent", "/encoded", "/broken", "/left"];
    for (path, ended) in paths.into_iter().zip(1..) {
        let mut client = gateway.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        client.head();
        if path == "/broken" {
            client.rest();
        }
        drop(client);
        gateway.access_lines(ended);
    }
    let lines = gateway.access_lines(5);
    for (path, line) in paths.into_iter().zip(&lines) {
        assert_eq!(line["unsettled"], path[1..], "{line}");
    }
    let log = gateway.log();
    for (cause, count) in [("absent", 2.0), ("encoded", 1.0), ("broken", 1.0), ("left", 1.0)] {
        let label = format!("cause=\"{cause}\"");
        let labels = [label.as_str(), "policy=\"per-client\""];
        assert_eq!(
            metric(&gateway, "tollgate_unsettled_requests_total", &labels),
            count,
            "{cause}"
        );
        // The log warns once.
        let warnings =
            log.lines().filter(|line| line.contains("the cost of a request is not known"));
        assert_eq!(warnings.filter(|line| line.contains(cause)).count(), 1, "{cause}: {log}");
    }
}
