//! The fields that the gateway adds to a response are in it once, however it is written.

use crate::support::{Gateway, Origin, Response, eventually};

const POLICY: &str = "key: ip, limit: 1000/day";
/// The fields that each response has.
const OWN: [&str; 6] = [
    "x-request-id",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit-policy",
    "ratelimit",
];

/// Checks that a response has the fields of the gateway once, and after `before` requests.
fn assert_own_fields(response: &Response, before: u64) {
    for own in OWN {
        let count =
            response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(own)).count();
        assert_eq!(count, 1, "{own}: {:?}", response.fields);
    }
    let remaining = 999 - before;
    assert_eq!(response.number("x-ratelimit-remaining"), remaining);
    let list = response.field("ratelimit").expect("checked before");
    assert!(list.starts_with(&format!("\"per-client\";r={remaining};t=")), "{list}");
}

/// The responses fill the socket, so that they are written in parts.
fn assert_pipelined(its: &str, body: &str) {
    const REQUESTS: usize = 300;
    let head = format!("X-Its: {its}\r\nContent-Length: {}", body.len());
    let sent = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
    let origin = Origin::answering(move |_| sent.clone());
    let gateway = Gateway::limiting(&origin, POLICY);
    let mut client = gateway.client();
    client.send(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS));
    let mut begun = 0;
    let mut unchanged = 0;
    eventually("the gateway waits for the client", || {
        let is_same = std::mem::replace(&mut begun, origin.received().len()) == begun;
        unchanged = if is_same && begun > 0 { unchanged + 1 } else { 0 };
        unchanged > 20
    });
    assert!(begun < REQUESTS, "the socket has less room");
    for before in 0..REQUESTS {
        let response = client.response("GET");
        assert_own_fields(&response, u64::try_from(before).expect("it is small"));
        assert_eq!(response.status, 200);
        assert!(response.field("X-Its") == Some(its), "the head of response {before}");
        assert!(response.text() == body, "the body of response {before}");
    }
}

#[test]
fn they_are_in_pipelined_responses_that_a_client_reads_late() {
    assert_pipelined("own", &"b".repeat(64 * 1024));
}

#[test]
fn they_are_in_pipelined_heads_that_a_client_reads_late() {
    assert_pipelined(&"h".repeat(50_000), "");
}

#[test]
fn they_are_in_the_response_and_not_in_a_100_before_it() {
    let gateway = Gateway::limiting(&Origin::hello(), POLICY);
    let mut client = gateway.client();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for (before, with_body) in [(0, false), (1, true), (2, false)] {
        client.send(head.as_bytes());
        if with_body {
            client.send(b"hello");
        }
        let mut response = client.head();
        assert!(with_body || response.status == 100, "{:?}", response.fields);
        if response.status == 100 {
            assert!(response.fields.is_empty(), "{:?}", response.fields);
            if !with_body {
                client.send(b"hello");
            }
            response = client.response("POST");
        }
        assert_eq!(response.status, 200, "{:?}", response.fields);
        assert_own_fields(&response, before);
    }
}

#[test]
fn they_replace_or_follow_those_of_the_backend() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nX-Request-Id: its\r\nRateLimit: \"b\";r=1\r\nX-Ratelimit-Reset: 1\r\n\
         X-Ratelimit-Remaining: 5000\r\nContent-Length: 0\r\n\r\n"
            .to_owned()
    });
    let gateway = Gateway::limiting(&origin, POLICY);
    let response = gateway.client().get("/", &["X-Request-Id: ours"]);
    let all = |wanted: &str| -> Vec<&str> {
        let of = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        of.map(|(_, value)| &**value).collect()
    };
    assert_eq!(all("x-request-id"), ["ours"]);
    assert_eq!(all("x-ratelimit-remaining"), ["999"]);
    assert_eq!(all("x-ratelimit-limit"), ["1000"]);
    let lists = all("ratelimit");
    assert_eq!((lists.len(), lists[0]), (2, "\"b\";r=1"));
    assert!(lists[1].starts_with("\"per-client\";r=999;"), "{lists:?}");
    assert_eq!(all("x-ratelimit-reset").len(), 1);
}
