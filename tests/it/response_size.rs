//! Bounds on the size of responses: `max_response` of a route.

use http_body_util::BodyExt as _;

use crate::support::http::{Http, block_on, nothing, request};
use crate::support::{Gateway, Origin};

/// A response of `bytes` bytes, with its length, in chunks, or until the connection closes.
fn origin(framing: &'static str, bytes: usize) -> Origin {
    let body = "x".repeat(bytes);
    Origin::serving(move |stream, read| {
        use std::io::Write as _;
        let Some(asked) = read() else { return };
        let body = if asked.line().starts_with("HEAD ") { "" } else { &body };
        let answer = match framing {
            "length" => format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{body}"),
            "chunked" => {
                let chunks: String = body
                    .as_bytes()
                    .chunks(10)
                    .map(|chunk| {
                        format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk))
                    })
                    .collect();
                format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
            }
            _ => format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
        };
        let _ = stream.write_all(answer.as_bytes());
    })
}

fn gateway(origin: &Origin) -> Gateway {
    Gateway::forwarding(origin, "max_response: 100", "", "")
}

#[test]
fn a_response_that_announces_too_much_is_a_bad_gateway() {
    let large = origin("length", 101);
    let gateway = gateway(&large);
    let response = gateway.client().get("/", &[]);
    assert_eq!(response.status, 502, "{response:?}");
    let document = response.json();
    assert_eq!(document["source"], "upstream", "{document}");
    assert!(response.text().contains("larger than this route allows"), "{}", response.text());
    // The length of a response to HEAD is not that of its body.
    let head = gateway.client().request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.field("content-length")), (200, Some("101")));
    let lines = gateway.access_lines(2);
    let outcome =
        |status: u16| lines.iter().find(|it| it["status"] == status).map(|it| &it["outcome"]);
    assert_eq!(outcome(502), Some(&"upstream_response_too_large".into()), "{lines:?}");
    assert_eq!(outcome(200), Some(&"admitted".into()), "{lines:?}");
}

#[test]
fn a_response_of_the_largest_size_passes_whole() {
    for framing in ["length", "chunked", "close"] {
        let origin = origin(framing, 100);
        let gateway = gateway(&origin);
        let response = gateway.client().get("/", &[]);
        assert_eq!((response.status, response.body.len()), (200, 100), "{framing}");
    }
}

#[test]
fn a_response_that_grows_too_large_never_ends_as_a_whole_one() {
    for framing in ["chunked", "close"] {
        let origin = origin(framing, 101);
        let gateway = gateway(&origin);
        let mut client = gateway.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let received = client.rest();
        let text = String::from_utf8_lossy(&received);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let is_whole = text.ends_with("0\r\n\r\n") || body.matches('x').count() > 100;
        assert!(!is_whole, "{framing}: {text}");
        assert!(
            text.is_empty() || text.to_lowercase().contains("transfer-encoding: chunked"),
            "{text}"
        );
        assert_eq!(gateway.access_lines(1)[0]["outcome"], "upstream_response_too_large");
    }
}

#[test]
fn over_http_2_the_stream_is_reset() {
    for framing in ["chunked", "close"] {
        let origin = origin(framing, 101);
        let gateway = gateway(&origin);
        block_on(async {
            let client = Http::prior_knowledge(gateway.address()).await;
            let answer = client.ask(request("GET", "/", nothing())).await;
            assert!(answer.is_err(), "{framing}: {answer:?}");
        });
        assert_eq!(gateway.access_lines(1)[0]["outcome"], "upstream_response_too_large");
    }
}

/// Regression: if the first bytes were too many, the client got nothing at all, and could not tell this
/// from a gateway that is away.
#[test]
fn the_response_begins_before_it_breaks() {
    for framing in ["chunked", "close"] {
        let origin = origin(framing, 101);
        let gateway = gateway(&origin);
        for _ in 0..5 {
            let mut client = gateway.client();
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.head().status, 200, "{framing}");
            while let Ok(Some(_)) = client.chunk() {}
            block_on(async {
                let client = Http::prior_knowledge(gateway.address()).await;
                let answer = client.send(request("GET", "/", nothing())).await.expect("a head");
                assert_eq!(answer.status(), 200, "{framing}");
                assert!(answer.into_body().collect().await.is_err(), "{framing}");
            });
        }
    }
}
