//! Envoy asks by its service for external authorization whether a request may pass.
//!
//! Messages are written here byte by byte, so that the test does not use the types of the program.

use crate::support::Gateway;
use crate::support::http::{Answer, Http, block_on, request, whole};

/// A field of a message that has a length: a text, bytes or a message.
fn field(number: usize, content: &[u8]) -> Vec<u8> {
    let byte = |number: usize| u8::try_from(number).expect("small numbers only");
    let length = [byte((content.len() % 128) | 128), byte(content.len() / 128)];
    [&[byte(number << 3 | 2)], &length[..], content].concat()
}

/// A `CheckRequest` about `GET path` of this client.
pub(super) fn question(path: &str, client: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    question_of("GET", path, client, fields)
}

/// A `CheckRequest` about a request of this client.
pub(super) fn question_of(
    method: &str,
    path: &str,
    client: &str,
    fields: &[(&str, &str)],
) -> Vec<u8> {
    let address = field(1, &field(1, &field(2, client.as_bytes())));
    let header = |(name, value): &(&str, &str)| {
        field(3, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let mut http: Vec<u8> = fields.iter().flat_map(header).collect();
    for (number, text) in [(2, method), (4, path), (5, "shop.test")] {
        http.extend(field(number, text.as_bytes()));
    }
    let request = field(4, &field(2, &http));
    let message = field(1, &[field(1, &address), request].concat());
    let length = u32::try_from(message.len()).expect("it is small").to_be_bytes();
    [&[0], &length[..], &message].concat()
}

async fn ask(connection: &Http, message: Vec<u8>) -> Answer {
    ask_with(connection, message, &[]).await
}

/// The answer to a call with these fields.
pub(super) async fn ask_with(
    connection: &Http,
    message: Vec<u8>,
    fields: &[(&'static str, &'static str)],
) -> Answer {
    let path = "/envoy.service.auth.v3.Authorization/Check";
    let mut request = request("POST", path, whole(message));
    for (name, value) in [&[("content-type", "application/grpc")], fields].concat() {
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    connection.ask(request).await.expect("an answer")
}

/// Whether the message of an answer contains these bytes.
pub(super) fn has(answer: &Answer, bytes: &[u8]) -> bool {
    answer.body.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn envoy_asks_whether_a_request_may_pass() {
    let gateway = Gateway::start(
        "check: { grpc: { address: \"127.0.0.1:0\", services: [authorization] } }\n\
         policies: { per-client: { key: ip, limit: 2/hour } }\n\
         routes: [{ path: /v1/*, policies: [per-client], respond: { status: 204 } }]\n",
    );
    block_on(async {
        let connection = Http::prior_knowledge(gateway.address()).await;
        // The client is the peer of Envoy, whatever it says itself.
        let forged = [("x-forwarded-for", "198.51.100.1")];
        for left in ["1", "0"] {
            let answer = ask(&connection, question("/v1/a?b", "192.0.2.1", &forged)).await;
            assert_eq!(answer.trailers["grpc-status"], "0", "{answer:?}");
            // A key and its value, each behind its tag and its length.
            let told = [b"x-ratelimit-remaining\x12\x01", left.as_bytes()].concat();
            assert!(has(&answer, &told) && !has(&answer, b"no-store"), "{answer:?}");
        }
        let refused = ask(&connection, question("/v1/a", "192.0.2.1", &[])).await;
        // The code 8 of gRPC, and the status 429 of HTTP.
        assert!(has(&refused, &[8, 8]) && has(&refused, &[8, 0xad, 3]), "{refused:?}");
        assert!(has(&refused, b"retry-after") && has(&refused, b"Quota Exceeded"), "{refused:?}");
        let other = ask(&connection, question("/v1/a", "192.0.2.2", &forged)).await;
        assert!(has(&other, b"x-ratelimit-remaining"), "{other:?}");
        let free = ask(&connection, question("/v2", "192.0.2.1", &[])).await;
        assert!(free.trailers["grpc-status"] == "0" && !has(&free, b"ratelimit"), "{free:?}");
        let ambiguous = ask(&connection, question("/v1/../a", "192.0.2.1", &[])).await;
        assert!(has(&ambiguous, &[8, 0x90, 3]) && has(&ambiguous, b"http.path"), "{ambiguous:?}");
        let empty = ask(&connection, vec![0; 5]).await;
        assert_eq!(empty.headers["grpc-status"], "3", "{empty:?}");
    });
    let lines = gateway.access_lines(6);
    let told =
        |index: usize, name: &str| lines[index][name].as_str().unwrap_or_default().to_owned();
    assert_eq!((told(0, "path"), told(0, "host")), ("/v1/a".into(), "shop.test".into()));
    assert_eq!([2, 4, 5].map(|line| told(line, "outcome")), ["refused", "unmatched", "ambiguous"]);
}
