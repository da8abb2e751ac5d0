//! Responses that two readers could read in two ways: no client gets them, and no other
//! client gets their remaining bytes.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::frames::{DATA, frame, head};
use crate::support::http::{Http, block_on, nothing, request};
use crate::support::{Endpoint, Gateway, Origin, Response, eventually};

/// When an origin sends what belongs to no response: after the gateway has the response, and can
/// use the connection again.
const LATER: Duration = Duration::from_millis(20);

/// The responses to two requests of one client, when the backend sends these bytes for the
/// first, which has this method, and `second` for the second.
fn exchange(method: &str, said: &'static [u8]) -> (Response, Response) {
    let origin = Origin::serving(move |stream, read| {
        while let Some(request) = read() {
            let is_second = request.line().contains("/second");
            let second = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";
            let _ = stream.write_all(if is_second { second } else { said });
        }
    });
    let gateway = Gateway::forwarding(
        &origin,
        "timeouts: { response: 500ms }",
        "",
        "runtime: { workers: 1 }",
    );
    let first = gateway.client().request(method, "/first", &[], b"");
    (first, gateway.client().get("/second", &[]))
}

#[test]
fn a_response_with_two_readings_is_not_relayed() {
    let cases: [(&str, &[u8]); 24] = [
        (
            "both framings",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "both framings, chunks first",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        ),
        ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        ("a list of lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab"),
        (
            "a length that not every reader can count to",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nab",
        ),
        ("a length with a plus", b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na"),
        ("a length with a minus", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na"),
        ("a coding in HTTP/1.0", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("a folded field", b"HTTP/1.1 200 OK\r\nX-One: 1\r\n 2\r\nContent-Length: 0\r\n\r\n"),
        ("a blank before a colon", b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\na"),
        ("a NUL in a field", b"HTTP/1.1 200 OK\r\nX-One: 1\x002\r\nContent-Length: 0\r\n\r\n"),
        (
            "a carriage return in a field",
            b"HTTP/1.1 200 OK\r\nX-One: 1\r2\r\nContent-Length: 0\r\n\r\n",
        ),
        ("a line without a colon", b"HTTP/1.1 200 OK\r\nnone\r\nContent-Length: 0\r\n\r\n"),
        ("chunks in chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
        ("chunks twice", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("a coding that is not undone", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ("a coding of nothing", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n"),
        ("another version", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("another protocol", b"ICY 200 OK\r\n\r\n"),
        ("no status", b"HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n"),
        ("a status of four digits", b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            "a switch that was not requested",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        ),
        ("noise", b"\x01\x02\x03\x04\r\n\r\n"),
        ("a request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (name, said) in cases {
        let (first, second) = exchange("GET", said);
        assert_eq!(first.status, 502, "{name}");
        assert_eq!((second.status, second.text().as_str()), (200, "second"), "{name}");
    }
}

/// Bytes after a response belong to no request. They must not become the response to the
/// next client.
#[test]
fn leftover_bytes_are_never_a_response() {
    let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let cases: [(&str, &str, &'static str, &str); 6] = [
        ("behind a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"),
        (
            "behind chunks",
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "ok",
        ),
        ("behind a response without content", "GET", "HTTP/1.1 204 No Content\r\n\r\n", ""),
        (
            "behind one that was not modified",
            "GET",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            "",
        ),
        ("behind a HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", ""),
        ("behind a length of nothing", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""),
    ];
    for (name, method, good, text) in cases {
        let said = format!("{good}{evil}").into_bytes().leak();
        let (first, second) = exchange(method, said);
        assert_eq!(first.text(), text, "{name}");
        assert_eq!((second.status, second.text().as_str()), (200, "second"), "{name}");
    }
}

/// An origin that sends these bytes for `/first`, and the bytes of another response a moment later.
fn saying_more_later(said: &'static [u8]) -> Origin {
    Origin::serving(move |stream, read| {
        while let Some(request) = read() {
            let is_first = request.line().contains("/first");
            let second = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";
            let _ = stream.write_all(if is_first { said } else { second });
            if is_first {
                thread::sleep(LATER);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
            }
        }
    })
}

/// Some endpoints send a body that its response must not have. If it comes in a later segment, the
/// connection was given to the next request before, and the body was its response.
#[test]
fn a_body_that_follows_a_response_without_one_is_never_a_response() {
    let cases: [(&str, &[u8]); 5] = [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
    ];
    for (method, said) in cases {
        let origin = saying_more_later(said);
        let gateway = Gateway::on_one_worker(origin.address(), "");
        let mut client = gateway.client();
        for _ in 0..10 {
            gateway.client().request(method, "/first", &[], b"");
            assert_eq!(client.get("/second", &[]).text(), "second", "{method}");
        }
    }
}

/// What comes behind a response that has all of its content cannot be expected. After it was seen
/// once, it is.
#[test]
fn an_endpoint_that_was_seen_to_send_too_much_is_suspected() {
    let origin = saying_more_later(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let gateway = Gateway::on_one_worker(origin.address(), "");
    assert_eq!(gateway.client().get("/first", &[]).text(), "ok");
    eventually("it is seen", || gateway.log().contains("bytes behind the end of a response"));
    let mut client = gateway.client();
    for _ in 0..10 {
        assert_eq!(gateway.client().get("/first", &[]).text(), "ok");
        assert_eq!(client.get("/second", &[]).text(), "second");
    }
}

#[test]
fn a_repeated_length_is_relayed_once() {
    let cases: [(&str, &str, &str); 5] = [
        ("GET", "Content-Length: 2\r\nContent-Length: 2", "ok"),
        ("GET", "Content-Length: 2, 2", "ok"),
        ("GET", "Content-Length: 2,2\r\nContent-Length: 2", "ok"),
        ("HEAD", "Content-Length: 2, 2", ""),
        ("HEAD", "Content-Length: 2\r\nContent-Length: 2", ""),
    ];
    for (method, lengths, body) in cases {
        let origin =
            Origin::answering(move |_| format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n{body}"));
        let gateway = Gateway::forwarding(&origin, "", "", "");
        let first = gateway.client().request(method, "/", &[], b"");
        let said = first.fields.iter().filter(|(name, _)| name == "content-length");
        let said: Vec<&str> = said.map(|(_, value)| &**value).collect();
        assert_eq!((first.status, said), (200, vec!["2"]), "{method} {lengths}");
        let second = block_on(async {
            let http = Http::prior_knowledge(gateway.address()).await;
            http.ask(request(method, "/", nothing())).await.unwrap()
        });
        let said: Vec<_> = second.headers.get_all("content-length").iter().collect();
        assert_eq!((second.status.as_u16(), &second.body[..]), (200, body.as_bytes()));
        assert_eq!(said, ["2"], "{method} {lengths}");
    }
}

/// The HTTP library does not check the length of a response without content, and ignores a
/// second length over HTTP/2.
#[test]
fn contradicting_lengths_are_not_relayed() {
    let too_large = "9223372036854775808, 9223372036854775808";
    for lengths in ["2, 3", "2\r\nContent-Length: 3", "+2", "2,", too_large] {
        let said = format!("HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\n").leak();
        let (first, second) = exchange("HEAD", said.as_bytes());
        assert_eq!((first.status, second.status), (502, 200), "{lengths}");
    }
    let endpoint = Endpoint::answering(|_, asked| {
        let lengths = [(":status", "200"), ("content-length", "2"), ("content-length", "3")];
        match asked.ends_stream() {
            true => {
                [head(asked.stream, &lengths, false), frame(DATA, 1, asked.stream, b"ok")].concat()
            }
            false => Vec::new(),
        }
    });
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        endpoint.url()
    ));
    assert_eq!(gateway.client().get("/", &[]).status, 502);
}
