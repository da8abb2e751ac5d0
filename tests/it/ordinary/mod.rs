//! Ordinary traffic is admitted: requests as browsers, libraries and proxies send them,
//! under limits by every kind of key. No check may refuse one of them.

mod traffic;

use std::thread;

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use crate::support::http::{Http, Outgoing, block_on, whole};
use crate::support::{Client, Gateway, Origin, Received};
use traffic::{Body, Request, Traffic};

const SECRET: &str = "a secret of at least thirty-two bytes";
const REQUESTS: usize = 10_000;
/// Connections that are used at the same time.
const CLIENTS: usize = 4;
/// Requests of HTTP/2 that are under way at the same time.
const STREAMS: usize = 50;

/// Responds with success, and to HEAD without a body.
fn origin() -> Origin {
    Origin::answering(|request: &Received| {
        let body = if request.head.starts_with("HEAD ") { "" } else { "hello" };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}")
    })
}

/// Limits by every kind of key, none of which is ever reached.
fn gateway(origin: &Origin, trusted: &str) -> Gateway {
    let keys = ["ip", "api_key", "user", "\"cookie:sid\"", "\"query:key\"", "\"header:x-tenant\""];
    let several = ["{ first: [api_key, user, ip] }", "{ all: [ip, path] }", "\"param:tenant\""];
    let policies = keys.iter().chain(&several).enumerate();
    let policies: String = policies
        .map(|(at, key)| format!("  p{at}: {{ key: {key}, limit: 1000000/minute }}\n"))
        .collect();
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         client: {{ trusted_proxies: [{trusted}], user: {{ jwt: {{ secret: \"{SECRET}\", algorithms: [HS256] }} }} }}\n\
         policies:\n{policies}\
         routes:\n\
         \u{20} - {{ path: \"/t/{{tenant}}/*\", upstream: app, policies: [p0, p1, p2, p3, p4, p8] }}\n\
         \u{20} - {{ path: \"/*\", upstream: app, policies: [p0, p1, p2, p3, p4, p5, p6, p7] }}\n",
        origin.address()
    ))
}

fn token(user: usize) -> String {
    let claims = json!({ "sub": format!("user-{user}"), "scope": "a b", "iat": 1_700_000_000 });
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token")
}

/// The requests that were not answered with success, and their responses.
type Refused = Vec<(u16, String)>;

/// Sends requests over HTTP/1, one after the other on kept connections.
fn send(gateway: &Gateway, requests: &[Request]) -> Refused {
    let mut client = gateway.client();
    let mut refused = Refused::new();
    for request in requests {
        let bytes = request.http1();
        client.send(&bytes);
        let response = answer(&mut client, request);
        if response != 200 {
            refused.push((response, String::from_utf8_lossy(&bytes).into_owned()));
        }
        if response != 200 || request.is_old {
            client = gateway.client();
        }
    }
    refused
}

/// The status of the final response.
fn answer(client: &mut Client, request: &Request) -> u16 {
    loop {
        match client.try_response(&request.method) {
            Ok(Some(interim)) if interim.status < 200 => {}
            last => return last.ok().flatten().map_or(0, |response| response.status),
        }
    }
}

fn assert_all_pass(trusted: &str, seed: u64, requests: usize) {
    let origin = origin();
    let gateway = gateway(&origin, trusted);
    let tokens: Vec<_> = (0..8).map(token).collect();
    let requests: Vec<_> = Traffic::new(seed, &tokens).take(requests).collect();
    let share = requests.len().div_ceil(CLIENTS);
    let refused: Refused = thread::scope(|scope| {
        let parts: Vec<_> = requests.chunks(share).collect();
        let clients: Vec<_> =
            parts.iter().map(|part| scope.spawn(|| send(&gateway, part))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    });
    let some: Vec<_> = refused.iter().take(5).collect();
    assert!(refused.is_empty(), "{} of {} refused: {some:#?}", refused.len(), requests.len());
    assert_eq!(origin.received().len(), requests.len(), "all of them are forwarded");
}

#[test]
fn ten_thousand_requests_of_all_kinds_are_admitted() {
    assert_all_pass("", 1, REQUESTS / 2);
    assert_all_pass("127.0.0.0/8", 2, REQUESTS / 2);
}

#[test]
fn the_same_requests_are_admitted_over_http_2() {
    let origin = origin();
    let gateway = gateway(&origin, "");
    let tokens: Vec<_> = (0..8).map(token).collect();
    let requests = Traffic::new(3, &tokens).filter(|request| !request.is_old);
    let requests: Vec<_> = requests.take(REQUESTS / 10).collect();
    let refused: Refused = block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        let mut refused = Refused::new();
        for together in requests.chunks(STREAMS) {
            let asked = together.iter().filter_map(|request| Some((request, http2(request)?)));
            let answers = asked.map(async |(request, asked)| (request, http.ask(asked).await));
            for (request, answer) in join_all(answers).await {
                let status = answer.map_or(0, |answer| answer.status.as_u16());
                if status != 200 {
                    refused.push((status, format!("{request:?}")));
                }
            }
        }
        refused
    });
    let some: Vec<_> = refused.iter().take(5).collect();
    assert!(refused.is_empty(), "{} of {} refused: {some:#?}", refused.len(), requests.len());
}

/// The same request in HTTP/2, if HTTP/2 can express it.
fn http2(request: &Request) -> Option<http::Request<Outgoing>> {
    let path = request.target.strip_prefix('/')?;
    let body = match &request.body {
        Body::None => Vec::new(),
        Body::Whole(bytes) | Body::Chunked(bytes) => bytes.clone(),
    };
    let mut asked = http::Request::builder()
        .method(&*request.method)
        .uri(format!("http://gateway.test/{path}"))
        .body(whole(body))
        .expect("a request");
    for (name, value) in &request.fields {
        let is_of_http1 = ["connection", "keep-alive", "te", "expect", "upgrade-insecure-requests"];
        let name = name.to_ascii_lowercase();
        if name != "host" && !is_of_http1.contains(&&*name) {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            asked.headers_mut().append(name, value);
        }
    }
    Some(asked)
}
