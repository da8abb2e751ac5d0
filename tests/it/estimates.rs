//! Units that are reserved by what the body of a request states.

use std::io::Write as _;

use crate::support::{Client, Gateway, Origin, Response, eventually};

const JSON: &str = "Content-Type: application/json";
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Transfer-Encoding: chunked\r\n\r\n";
const TOKENS: &str = "key: ip, limit: 10000/day, algorithm: fixed_window";

/// Responds with the tokens that the body of the request has as `uses`.
fn telling() -> Origin {
    Origin::answering(|request| {
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let usage = match body["uses"].as_u64() {
            Some(tokens) => format!("{{\"usage\":{{\"prompt_tokens\":{tokens}}}}}"),
            None => "{\"object\":\"list\"}".to_owned(),
        };
        let length = usage.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{usage}"
        )
    })
}

fn limiting(origin: &Origin, cost: &str, route: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ tokens: {{ {TOKENS}, cost: {{ {cost} }} }} }}\n\
         routes: [{{ path: /*, policies: [tokens], upstream: app, {route} }}]\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ))
}

/// A body of so many bytes with these members.
fn body(bytes: usize, members: &str) -> String {
    let rest = bytes - members.len() - "{,\"x\":\"\"}".len();
    format!("{{{members},\"x\":\"{}\"}}", " ".repeat(rest))
}

/// What remains when the request has reserved its units.
fn left(client: &mut Client, path: &str, fields: &[&str], body: &str) -> u64 {
    let response = client.request("POST", path, fields, body.as_bytes());
    assert_eq!(response.status, 200, "{body:.100}");
    response.number("X-Ratelimit-Remaining")
}

#[test]
fn the_body_says_what_is_reserved_and_the_answer_settles_it() {
    let origin = telling();
    let cost = "reserve: { max: 9000 }, settle: { usage: openai }";
    let gateway = limiting(&origin, cost, "read_body: { max: 64KiB }");
    let mut client = gateway.client();
    let chat = "/v1/chat/completions";
    let stated = body(300, "\"max_tokens\":100,\"uses\":50");
    assert_eq!(left(&mut client, chat, &[JSON], &stated), 10_000 - 200);
    // 50 units count of that request.
    let unstated = body(300, "\"uses\":0");
    assert_eq!(left(&mut client, chat, &[JSON], &unstated), 9_950 - 100 - 4096);
    assert_eq!(left(&mut client, "/v1/embeddings", &[JSON], &unstated), 9_950 - 100);
    let image = format!("{{\"max_tokens\":1,\"uses\":0,\"u\":\"{}\"}}", "QUJD".repeat(3000));
    assert_eq!(left(&mut client, chat, &[JSON], &image), 9_950 - 1500 - 11 - 1);
    // The length counts of a body that is no JSON, and of one that is too large to be read.
    let text = ["Content-Type: text/plain"];
    assert_eq!(left(&mut client, "/v1/embeddings", &text, &stated), 9_950 - 100);
    assert_eq!(left(&mut client, "/v1/models", &[], ""), 9_900);
    let models = client.get("/v1/models", &[]);
    assert_eq!(models.number("X-Ratelimit-Remaining"), 9_900, "a request without a body is free");
    for received in origin.received().iter().filter(|it| it.line().starts_with("GET")) {
        assert!(received.body.is_empty());
    }
}

#[test]
fn a_body_of_which_the_size_is_not_known_reserves_the_most() {
    let origin = telling();
    let cost = "reserve: { max: 900 }, settle: { usage: openai }";
    let gateway = limiting(&origin, cost, "read_body: { max: 1KiB, over: missing }");
    let mut client = gateway.client();
    let head = "POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let large = body(3000, "\"uses\":10");
    client.send(format!("{head}{:x}\r\n{large}\r\n0\r\n\r\n", large.len()).as_bytes());
    let response = client.response("POST");
    assert_eq!((response.status, response.number("X-Ratelimit-Remaining")), (200, 9_100));
    // Its length is known, although it is not read.
    assert_eq!(
        left(&mut client, "/v1/embeddings", &[JSON], &body(1500, "\"uses\":0")),
        9_990 - 500
    );
    let small = body(900, "\"uses\":0");
    client.send(format!("{head}{:x}\r\n{small}\r\n0\r\n\r\n", small.len()).as_bytes());
    assert_eq!(client.response("POST").number("X-Ratelimit-Remaining"), 9_990 - 300);
}

#[test]
fn the_access_log_has_the_model_that_a_request_names() {
    let origin = telling();
    let estimating = |reserve: &str, api: &str| {
        limiting(&origin, &format!("reserve: {{ {reserve} }}, settle: {{ usage: {api} }}"), "")
    };
    let body = |model: &str| format!("{{\"model\":{model},\"max_tokens\":1}}");
    let long = "\u{e9}".repeat(70);
    let gateway = estimating("", "openai");
    let mut client = gateway.client();
    for model in ["\"gpt-5\"", "\"a\\n\\\"\\u001b[1m\"", "7", "null", "[]", &format!("\"{long}\"")]
    {
        left(&mut client, "/", &[JSON], &body(model));
    }
    client.get("/v1/models", &[]);
    let lines = gateway.access_lines(7);
    let models: Vec<_> = lines.iter().map(|line| line["model"].as_str()).collect();
    let cut = "\u{e9}".repeat(64);
    let expected =
        [Some("gpt-5"), Some("a\n\"\u{1b}[1m"), Some("7"), None, None, Some(&*cut), None];
    assert_eq!(models, expected);

    let gateway = estimating("model: \"header:x-model\"", "openai");
    left(&mut gateway.client(), "/", &[JSON, "X-Model: m 1"], &body("\"other\""));
    assert_eq!(gateway.access_lines(1)[0]["model"], "m 1");
    let gateway = estimating("", "gemini");
    let path = "/v1beta/models/gemini-3:generateContent";
    left(&mut gateway.client(), path, &[JSON], &body("\"other\""));
    assert_eq!(gateway.access_lines(1)[0]["model"], "gemini-3");
}

#[test]
fn a_request_without_a_body_passes_when_the_budget_is_used_up() {
    let origin = telling();
    let gateway = limiting(&origin, "reserve: {}, settle: { usage: openai }", "");
    let mut client = gateway.client();
    left(&mut client, "/v1/embeddings", &[JSON], "{\"uses\":20000}");
    let refused = |client: &mut Client| -> Response {
        client.request("POST", "/v1/embeddings", &[JSON], b"{\"uses\":1}")
    };
    assert_eq!(refused(&mut client).status, 429);
    assert_eq!(client.get("/v1/models", &[]).status, 200);
    let ambiguous = b"{\"max_tokens\":1,\"max_tokens\":90000}";
    let response = client.request("POST", "/v1/chat/completions", &[JSON], ambiguous);
    assert_eq!(response.status, 400);
    assert!(gateway.access_text(4).contains("body_ambiguous"));
    assert_eq!(origin.received().len(), 2);
}

#[test]
fn an_answer_that_breaks_off_counts_its_text_if_the_policy_says_so() {
    let origin = Origin::serving(|stream, read| {
        if read().is_some() {
            let event = "data: {\"choices\":[{\"delta\":{\"content\":\"123456789012\"}}]}\n\n";
            let text = format!("{STREAM}{:x}\r\n{event}\r\n", event.len());
            let _ = stream.write_all(text.as_bytes());
        }
    });
    for (unsettled, counted) in [("keep", 1100), ("estimate", 104)] {
        let cost = format!("reserve: {{}}, settle: {{ usage: openai, unsettled: {unsettled} }}");
        let gateway = limiting(&origin, &cost, "");
        let mut client = gateway.client();
        let request = body(300, "\"max_tokens\":1000");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n{JSON}\r\nContent-Length: 300\r\n\r\n"
        );
        client.send(format!("{head}{request}").as_bytes());
        assert_eq!(client.head().number("X-Ratelimit-Remaining"), 8_900);
        client.rest();
        let line = &gateway.access_lines(1)[0];
        assert_eq!(line["unsettled"], "broken");
        eventually("it is settled", || {
            // This answer breaks off, too.
            let mut probe = gateway.client();
            probe.send(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");
            probe.head().number("X-Ratelimit-Remaining") == 10_000 - counted
        });
    }
}
