//! `ask_usage`: streamed chat completions are asked for their tokens, and a client that has not asked
//! sees nothing of it.

use std::io::{Read as _, Write as _};
use std::sync::{Mutex, mpsc};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::support::http::{Http, block_on, request, whole};
use crate::support::{Backend, Client, Gateway, Origin, Received, Response, Speaks};

const CHAT: &str = "/v1/chat/completions";
const JSON: &str = "Content-Type: application/json";
const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n";
const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":30}}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const COST: &str = "reserve: 100, settle: { usage: openai, ask_usage: true }";
const ADDED: &str = "\"stream_options\":{\"include_usage\":true},";

fn plain() -> String {
    format!("{TEXT}{TEXT}{DONE}")
}

/// The events of an answer: with the tokens, if the request asks for them.
fn events(received: &Received) -> String {
    let body: serde_json::Value = serde_json::from_slice(&received.body).unwrap_or_default();
    let asked = body["stream_options"]["include_usage"] == true;
    format!("{TEXT}{TEXT}{}{DONE}", if asked { USAGE } else { "" })
}

/// Answers with events, and a length as `/length/...` says.
fn chat() -> Origin {
    Origin::answering(|received| {
        let events = events(received);
        let framing = match received.line().contains("/length/") {
            true => {
                format!("Content-Length: {}\r\nContent-Digest: x\r\n\r\n{events}", events.len())
            }
            false => {
                // The pieces end anywhere.
                let pieces = events.as_bytes().chunks(50).map(String::from_utf8_lossy);
                let chunks: String =
                    pieces.map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
                format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
            }
        };
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}")
    })
}

fn gateway(endpoint: &str, cost: &str, route: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"{endpoint}\" }}\n\
         policies:\n  \
           tokens: {{ key: ip, limit: 10000/day, algorithm: fixed_window, cost: {{ {cost} }} }}\n  \
           bytes: {{ key: ip, limit: 1000000/day, cost: {{ body_bytes: 1B }} }}\n\
         routes: [{{ path: /*, policies: [tokens, bytes], upstream: app, {route} }}]\n\
         runtime: {{ workers: 1 }}\n"
    ))
}

fn asking(origin: &Origin, route: &str) -> Gateway {
    gateway(&format!("http://{}", origin.address()), COST, route)
}

fn post(client: &mut Client, path: &str, body: &[u8]) -> Response {
    client.request("POST", path, &[JSON], body)
}

/// What the origin has received last.
fn last(origin: &Origin) -> (Vec<String>, String) {
    let received = origin.received().pop().expect("it was forwarded");
    let lengths = received.fields("content-length").into_iter().map(str::to_owned).collect();
    (lengths, String::from_utf8(received.body).expect("it is a text"))
}

#[test]
fn a_stream_is_settled_and_its_client_sees_no_event_with_tokens() {
    let origin = chat();
    for cost in [COST, "reserve: { output: 90 }, settle: { usage: openai, ask_usage: true }"] {
        let gateway = gateway(&format!("http://{}", origin.address()), cost, "");
        let mut client = gateway.client();
        let body = "{ \"stream\":true,\"messages\":[{\"content\":\"\\u00e9\"}]}\n";
        let response = post(&mut client, CHAT, body.as_bytes());
        assert_eq!((response.status, response.text()), (200, plain()));
        let (lengths, forwarded) = last(&origin);
        assert_eq!(forwarded, body.replace("{ \"s", &format!("{{{ADDED} \"s")));
        assert_eq!(lengths, [forwarded.len().to_string()]);
        let line = &gateway.access_lines(1)[0];
        assert_eq!((line["tokens_in"].as_u64(), line["tokens_out"].as_u64()), (Some(20), Some(30)));
        assert!(line["unsettled"].is_null(), "{line}");
        let models = client.get("/v1/models", &[]);
        let spent = if cost == COST { 150 } else { 50 };
        assert_eq!(models.number("X-Ratelimit-Remaining"), 10_000 - spent);
        // What the gateway has written is not among the bytes of the client.
        let policy = models.field("RateLimit").unwrap_or_default();
        let left = 1_000_000 - body.len() - 1;
        assert!(policy.contains(&format!("\"bytes\";r={left}")), "{policy}");
    }
}

#[test]
fn an_explicit_false_is_replaced_and_a_client_that_asks_gets_the_event() {
    let origin = chat();
    let gateway = asking(&origin, "");
    let mut client = gateway.client();
    let body = |value: &str| {
        format!(
            "{{\"messages\":[],\"stream_options\":{{\"include_usage\": {value} }},\"stream\":true}}"
        )
    };
    for value in ["false", "null", "0"] {
        let response = post(&mut client, CHAT, body(value).as_bytes());
        assert_eq!((response.text(), last(&origin).1), (plain(), body("true")), "{value}");
    }
    let response = post(&mut client, CHAT, body("true").as_bytes());
    assert_eq!(response.text(), format!("{TEXT}{TEXT}{USAGE}{DONE}"));
    assert_eq!(last(&origin).1, body("true"));
    assert!(gateway.access_lines(4).iter().all(|line| line["tokens_out"] == 30));
}

#[test]
fn a_body_in_chunks_and_one_over_http_2_are_changed_with_their_trailers() {
    let body = "{\"stream\":true,\"messages\":[]}";
    let changed = body.replacen('{', &format!("{{{ADDED}"), 1);
    for (scheme, speaks) in [("http", Speaks::Http1), ("h2c", Speaks::Http2 { max_streams: 9 })] {
        let backend = Backend::start(speaks);
        let gateway = gateway(&format!("{scheme}://{}", backend.address()), COST, "");
        let mut client = gateway.client();
        client.send(
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\
                 Trailer: x-checksum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\r\n{:x}\r\n{}\r\n\
                 0\r\nx-checksum: 1\r\n\r\n",
                &body[..3],
                body.len() - 3,
                &body[3..]
            )
            .as_bytes(),
        );
        assert_eq!(client.response("POST").status, 200, "{scheme}");
        block_on(async {
            let client = Http::prior_knowledge(gateway.address()).await;
            let answer = client.ask(request("POST", "/", whole(body))).await.expect("it passes");
            assert_eq!(answer.status, 200, "{scheme}");
        });
        let seen = backend.seen();
        assert_eq!(seen.len(), 2, "{scheme}");
        assert!(seen.iter().all(|request| request.body == changed.as_bytes()), "{scheme}");
        assert_eq!(seen[0].trailers.as_ref().expect("trailers")["x-checksum"], "1", "{scheme}");
        assert!(seen[0].headers.get("content-length").is_none(), "{scheme}");
        if let Some(length) = seen[1].headers.get("content-length") {
            assert_eq!(length, &changed.len().to_string(), "{scheme}");
        }
    }
}

#[test]
fn other_requests_stay_as_they_are() {
    let origin = chat();
    let gateway = asking(&origin, "");
    let mut client = gateway.client();
    let stream = "{\"stream\":true,\"messages\":[]}";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(stream.as_bytes()).expect("memory can be written to");
    let gzip = gzip.finish().expect("memory can be written to");
    let cases: [(&[&str], &[u8]); 8] = [
        (&[JSON], b"{\"stream\":false,\"messages\":[]}"),
        (&[JSON], b"{\"messages\":[]}"),
        (&[JSON], b"{\"stream\":true,\"input\":\"responses\"}"),
        (&["Content-Type: text/plain"], stream.as_bytes()),
        (&[JSON, "Content-Encoding: gzip"], &gzip),
        (&[JSON, "Content-Digest: sha-256=:AA==:"], stream.as_bytes()),
        (&[JSON, "Signature: sig=:AA==:"], stream.as_bytes()),
        (&[JSON, "Authorization: AWS4-HMAC-SHA256 Credential=k"], stream.as_bytes()),
    ];
    for (fields, body) in cases {
        let response = client.request("POST", CHAT, fields, body);
        assert_eq!((response.status, response.text()), (200, plain()), "{fields:?}");
        let received = origin.received().pop().expect("it was forwarded");
        assert_eq!(received.body, body, "{fields:?}");
        assert_eq!(received.fields("content-length"), [body.len().to_string()], "{fields:?}");
    }
    for line in gateway.access_lines(cases.len()) {
        assert_eq!(line["unsettled"], "absent");
    }
}

#[test]
fn a_body_that_programs_read_differently_is_refused() {
    let origin = chat();
    let gateway = asking(&origin, "");
    let mut client = gateway.client();
    for body in [
        "{\"stream\":false,\"stream\":true,\"messages\":[]}",
        "{\"Stream\":true,\"messages\":[]}",
        "{\"stream\":true,\"messages\":[],\"stream_options\":{\"Include_usage\":false}}",
        "{\"stream\":true",
    ] {
        assert_eq!(post(&mut client, CHAT, body.as_bytes()).status, 400, "{body}");
    }
    assert!(gateway.access_lines(4).iter().all(|line| line["outcome"] == "body_ambiguous"));
    assert!(origin.received().is_empty());
}

#[test]
fn the_bound_of_a_body_is_that_of_the_client() {
    let origin = chat();
    let gateway = asking(&origin, "max_body: 1KiB");
    let mut client = gateway.client();
    let body = |bytes: usize| {
        let rest = bytes - "{\"stream\":true,\"messages\":[],\"x\":\"\"}".len();
        format!("{{\"stream\":true,\"messages\":[],\"x\":\"{}\"}}", "a".repeat(rest))
    };
    let response = post(&mut client, CHAT, body(1024).as_bytes());
    assert_eq!((response.status, response.text()), (200, plain()));
    assert_eq!(last(&origin).1.len(), 1024 + ADDED.len());
    assert_eq!(post(&mut client, CHAT, body(1025).as_bytes()).status, 413);
}

#[test]
fn the_length_of_an_answer_is_not_told_and_its_compressed_form_lacks_the_event_too() {
    let origin = chat();
    let gateway = asking(&origin, "compress: {}");
    let mut client = gateway.client();
    let body = b"{\"stream\":true,\"messages\":[]}";
    let response = post(&mut client, "/length/", body);
    assert_eq!(response.text(), plain());
    assert_eq!((response.field("content-length"), response.field("content-digest")), (None, None));
    for path in [CHAT, "/length/"] {
        let response = client.request("POST", path, &[JSON, "Accept-Encoding: gzip"], body);
        assert_eq!(response.field("content-encoding"), Some("gzip"));
        let mut text = String::new();
        GzDecoder::new(&*response.body).read_to_string(&mut text).expect("it is gzip");
        assert_eq!(text, plain());
    }
    let line = &gateway.access_lines(1)[0];
    assert_eq!(line["bytes"].as_u64(), u64::try_from(plain().len()).ok(), "{line}");
    block_on(async {
        let client = Http::prior_knowledge(gateway.address()).await;
        let answer = client.ask(request("POST", "/length/", whole(&body[..]))).await;
        let answer = answer.expect("it passes");
        assert_eq!(answer.body, plain().as_bytes());
        assert!(answer.headers.get("content-length").is_none());
    });
    assert!(gateway.access_lines(4).iter().all(|line| line["tokens_out"] == 30));
}

#[test]
fn an_event_passes_at_once_and_a_part_of_one_when_the_answer_breaks_off() {
    const PART: &str = "data: {\"choices\":[],";
    let (go_on, told) = mpsc::channel();
    let told = Mutex::new(told);
    let origin = Origin::serving(move |stream, read| {
        if read().is_none() {
            return;
        }
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked";
        let _ = write!(stream, "{head}\r\n\r\n{:x}\r\n{TEXT}\r\n", TEXT.len());
        // The client has the first event before the rest is sent.
        let _ = told.lock().expect("no thread panics with it").recv();
        let _ = write!(stream, "{:x}\r\n{PART}\r\n", PART.len());
    });
    let gateway = asking(&origin, "");
    let mut client = gateway.client();
    let body = "{\"stream\":true,\"messages\":[]}";
    let length = body.len();
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nHost: a\r\n{JSON}\r\nContent-Length: {length}\r\n\r\n");
    client.send(format!("{head}{body}").as_bytes());
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk().expect("it is in order"), Some(TEXT.as_bytes().to_vec()));
    go_on.send(()).expect("the origin waits");
    let rest = String::from_utf8(client.rest()).expect("it is a text");
    assert_eq!(rest, format!("{:x}\r\n{PART}\r\n", PART.len()));
    assert_eq!(gateway.access_lines(1)[0]["unsettled"], "broken");
}

#[test]
fn a_route_that_requests_overflow_into_asks_too() {
    let origin = chat();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies:\n  \
           team: {{ key: \"json:/model\", limit: 1/day }}\n  \
           spare: {{ key: ip, limit: 10000/day, cost: {{ {COST} }} }}\n\
         routes:\n  \
           - {{ path: /v1/*, policies: [team], upstream: app, \
                overflow: {{ policies: [team], route: spare }} }}\n  \
           - {{ name: spare, path: /never, policies: [spare], upstream: app }}\n\
         runtime: {{ workers: 1 }}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    let body = "{\"model\":\"m\",\"stream\":true,\"messages\":[]}";
    let changed = body.replacen('{', &format!("{{{ADDED}"), 1);
    for expected in [body, &changed, &changed] {
        assert_eq!(post(&mut client, CHAT, body.as_bytes()).text(), plain());
        assert_eq!(last(&origin).1, expected);
    }
    let lines = gateway.access_lines(3);
    assert!(lines[0]["tokens_out"].is_null() && lines[2]["tokens_out"] == 30, "{lines:?}");
}
