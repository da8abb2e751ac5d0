//! Requests that are too large. They are generated, because of their length.

use super::backend::Backend;
use super::gateway;

const HEAD: &str = "GET / HTTP/1.1\r\nHost: a\r\n";

/// Sends `bytes` and asserts the answer, the end of the connection, and that
/// nothing arrives.
fn assert_refused(cases: &[(u16, String)]) {
    let backend = Backend::start();
    let gateway = gateway(&backend);
    for (status, bytes) in cases {
        let beginning = &bytes[..bytes.len().min(60)];
        let mut client = gateway.client();
        client.send(bytes.as_bytes());
        assert_eq!(client.response("GET").status, *status, "{beginning:?}");
        assert!(client.is_closed(), "{beginning:?}");
    }
    assert!(backend.take().is_empty() && backend.faults().is_empty());
}

#[test]
fn a_head_that_is_too_large_does_not_arrive() {
    let many: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    let x = |count| "x".repeat(count);
    assert_refused(&[
        (431, format!("{HEAD}{many}\r\n")),
        (431, format!("{HEAD}X-Long: {}\r\n\r\n", x(40_000))),
        (431, format!("{HEAD}X-Long: {}", x(40_000))),
        (431, format!("{HEAD}{}: 1\r\n\r\n", x(40_000))),
        (431, format!("{HEAD}{}", format!("X-Long: {}\r\n", x(1000)).repeat(40))),
        (414, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", x(40_000))),
        (414, format!("GET /{}", x(40_000))),
        (414, format!("GET /?{} HTTP/1.1\r\nHost: a\r\n\r\n", x(40_000))),
        (414, x(40_000)),
    ]);
}

#[test]
fn a_body_with_more_than_chunks_does_not_arrive() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let trailers: String = (0..101).map(|n| format!("X-{n}: 1\r\n")).collect();
    let x = |count| "x".repeat(count);
    assert_refused(&[
        (400, format!("{head}1;{}\r\na\r\n0\r\n\r\n", x(9000))),
        (400, format!("{head}1;{}", x(9000))),
        (400, format!("{head}{}0\r\n\r\n", "1;x=12345678\r\na\r\n".repeat(1000))),
        (400, format!("{head}0\r\n{trailers}\r\n")),
        (400, format!("{head}0\r\nX-Long: {}\r\n\r\n", x(40_000))),
        (400, format!("{head}{}1\r\na\r\n", "0".repeat(40_000))),
    ]);
}
