//! Responses that begin before the whole request has arrived: the gateway reads the rest
//! of the body and keeps the connection, or tells the client that the connection ends (RFC
//! 9112, section 9.6).

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use crate::support::{Client, Gateway, Origin};

/// The pause between a head and its body. The gateway responds in less time.
const PAUSE: Duration = Duration::from_millis(20);

/// Responds with this status after the head, and never reads the body.
fn hasty(status: &'static str) -> Origin {
    Origin::serving(move |stream, _| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if !stream.read(&mut byte).is_ok_and(|count| count > 0) {
                return;
            }
            head.extend(byte);
        }
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno");
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// A gateway with all kinds of refusals, which forwards `/early` to `origin`.
fn refusing(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         policies:\n  spent: {{ key: ip, limit: 1/day }}\n  \
         keyed: {{ key: \"header:x-key\", missing_key: deny, limit: 1/day }}\n\
         routes:\n\
         - {{ path: /limited, policies: [spent], respond: {{ body: ok }} }}\n\
         - {{ path: /keyed, policies: [keyed], respond: {{ body: ok }} }}\n\
         - {{ path: /fixed, respond: {{ body: ok }} }}\n\
         - {{ path: /led, redirect: {{ to: \"https://a.example/\" }} }}\n\
         - {{ path: /small, max_body: 10B, upstream: app }}\n\
         - {{ path: /early, upstream: app }}\n",
        origin.address()
    ))
}

/// All paths of [`refusing`] with a response before the body is read.
const ANSWERED: [(&str, u16); 7] = [
    ("/limited", 429),
    ("/keyed", 403),
    ("/nowhere", 404),
    ("/fixed", 200),
    ("/led", 308),
    ("/small", 413),
    ("/early", 401),
];

fn spent() -> (Origin, Gateway) {
    let origin = hasty("401 Unauthorized");
    let gateway = refusing(&origin);
    assert_eq!(gateway.client().get("/limited", &[]).status, 200);
    (origin, gateway)
}

/// Sends a head, and the body after a pause. The connection must be kept or closed as the
/// response says.
fn assert_honest(client: &mut Client, path: &str, status: u16, framing: &str, body: &[u8]) -> bool {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").as_bytes());
    thread::sleep(PAUSE);
    client.send(body);
    let response = client.response("POST");
    assert_eq!(response.status, status, "{path}");
    if response.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
        assert!(client.is_closed(), "{path} said so");
        return false;
    }
    assert_eq!(client.get("/fixed", &[]).status, 200, "{path}: the connection goes on");
    true
}

#[test]
fn a_small_body_that_comes_later_leaves_the_connection_usable() {
    let (_origin, gateway) = spent();
    for (path, status) in ANSWERED {
        let kept =
            assert_honest(&mut gateway.client(), path, status, "Content-Length: 20", &[b'x'; 20]);
        assert_eq!(kept, status != 413, "{path}");
    }
}

#[test]
fn a_large_body_ends_the_connection_and_the_client_is_told() {
    let (_origin, gateway) = spent();
    for (path, status) in ANSWERED {
        let length = "Content-Length: 1000000";
        let kept = assert_honest(&mut gateway.client(), path, status, length, &[b'x'; 1_000_000]);
        assert!(!kept, "{path}");
    }
}

/// The length of a chunked body is not known before its end.
#[test]
fn chunks_that_come_later_end_the_connection_and_the_client_is_told() {
    let (_origin, gateway) = spent();
    for (path, status) in ANSWERED {
        let chunked = "Transfer-Encoding: chunked";
        let body = b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n";
        // `/small` reads the body before it knows that it is too large.
        if status != 413 {
            let kept = assert_honest(&mut gateway.client(), path, status, chunked, body);
            assert!(!kept, "{path}");
        }
    }
}

#[test]
fn a_body_that_has_arrived_completely_leaves_the_connection_usable() {
    for (framing, body) in [
        ("Content-Length: 5", "hello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n5\r\nworld\r\n0\r\nX-A: 1\r\n\r\n"),
    ] {
        let (_origin, gateway) = spent();
        for (path, status) in ANSWERED.into_iter().filter(|(_, status)| *status != 413) {
            let mut client = gateway.client();
            client.send(
                format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{body}").as_bytes(),
            );
            let response = client.response("POST");
            assert_eq!((response.status, response.field("connection")), (status, None), "{path}");
            assert_eq!(client.get("/fixed", &[]).status, 200, "{path} {framing}");
        }
    }
}

/// The bytes after the body belong to the next request, even if they arrive together with
/// the body's last byte.
#[test]
fn requests_after_a_body_that_is_not_read_are_served() {
    let (_origin, gateway) = spent();
    let mut client = gateway.client();
    for _ in 0..20 {
        client.send(b"POST /limited HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(client.response("POST").status, 429);
        client.send(b"helloGET /fixed HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("GET").text(), "ok");
    }
}

/// A client that waits for a 100 and gets a final response sends no body.
#[test]
fn a_body_without_a_100_ends_the_connection_and_the_client_is_told() {
    let (_origin, gateway) = spent();
    for (path, status) in ANSWERED.into_iter().filter(|(path, _)| *path != "/early") {
        let mut client = gateway.client();
        let expect = "Expect: 100-continue\r\nContent-Length: 20";
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{expect}\r\n\r\n").as_bytes());
        let response = client.response("POST");
        assert_eq!((response.status, response.field("connection")), (status, Some("close")));
        assert!(client.is_closed());
    }
}
