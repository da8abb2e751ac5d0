//! Malformed and ambiguous requests. The gateway refuses them, and no part of them
//! reaches an origin.

use crate::support::http::{Http, block_on};
use crate::support::{Gateway, Origin};

const HOST: &str = "Host: a\r\n";

/// Sends each of `requests` on its own connection. The response must have `status`, and the
/// connection must end.
fn assert_refused(status: u16, requests: &[&str]) {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    for request in requests {
        let mut client = gateway.client();
        client.send(request.as_bytes());
        let response = client.response("GET");
        assert_eq!(response.status, status, "{request:?}");
        assert!(client.is_closed(), "the connection is open after {request:?}");
    }
    let came: Vec<_> = origin.received().into_iter().map(|received| received.head).collect();
    assert!(came.is_empty(), "requests reached the origin: {came:?}");
}

/// Sends heads with a valid request line, a valid Host, and these fields.
fn assert_fields_refused(fields: &[&str]) {
    let requests: Vec<String> = fields
        .iter()
        .map(|fields| format!("POST / HTTP/1.1\r\n{HOST}{fields}\r\n\r\n0\r\n\r\n"))
        .collect();
    assert_refused(400, &requests.iter().map(|request| &**request).collect::<Vec<_>>());
}

#[test]
fn a_request_line_must_be_valid() {
    assert_refused(
        400,
        &[
            "GET /\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
            "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / http/1.1\r\nHost: a\r\n\r\n",
            "get / HTTP/1.1\r\nHost: a\r\n\r\n",
            "- / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n",
        ],
    );
}

#[test]
fn a_version_must_be_supported() {
    assert_refused(
        505,
        &[
            "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/3.0\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn a_target_must_be_a_path_or_name_the_same_host() {
    assert_refused(
        400,
        &[
            "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
            "GET ?q HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn a_path_must_mean_the_same_to_every_backend() {
    assert_refused(
        400,
        &[
            "GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /.. HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a/%2e%2E/b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a/./b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a%5cb HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /% HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn there_must_be_exactly_one_valid_host() {
    assert_refused(
        400,
        &[
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a:x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: http://a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
        ],
    );
}

#[test]
fn a_field_must_be_a_name_a_colon_and_a_value() {
    assert_fields_refused(&[
        "no colon",
        ": no name",
        "X-Space : 1",
        "X Space: 1",
        "X-Fold: 1\r\n 2",
        "X-Fold: 1\r\n\t2",
        "X-Cr: 1\r2",
        "X-Cr: 1\rX-Two: 2",
        "X-Nul: 1\x002",
        "X-Bell: 1\x072",
        "X(Paren): 1",
        "X-\u{e9}: 1",
    ]);
}

#[test]
fn a_length_must_be_one_number() {
    assert_fields_refused(&[
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: five",
        "Content-Length:",
        "Content-Length: 99999999999999999999999",
        "Content-Length: 9223372036854775808",
    ]);
}

#[test]
fn only_the_transfer_coding_chunked_is_accepted() {
    assert_fields_refused(&[
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: chun\tked",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding:",
    ]);
    assert_refused(
        400,
        &["POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    );
}

#[test]
fn chunks_must_be_well_formed() {
    let head = format!("POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
    let bodies = [
        "x\r\n",
        "-1\r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "1 1\r\na\r\n0\r\n\r\n",
        "\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1;a\rb\r\na\r\n0\r\n\r\n",
        "fffffffffffffffff\r\na\r\n0\r\n\r\n",
    ];
    let requests = bodies.map(|body| format!("{head}{body}"));
    assert_refused(400, &requests.each_ref().map(|request| &**request));
}

#[test]
fn the_extensions_and_trailers_of_chunks_are_bounded() {
    let head = format!("POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
    let extension = "x".repeat(40_000);
    let trailers: String = (0..5000).map(|n| format!("X-Trailer-{n}: 1\r\n")).collect();
    assert_refused(
        400,
        &[
            &format!("{head}1;{extension}\r\na\r\n0\r\n\r\n"),
            &format!("{head}1;{extension}"),
            &format!("{head}0\r\n{trailers}\r\n"),
            &format!("{head}0\r\n{trailers}"),
        ],
    );
}

#[test]
fn a_tunnel_is_not_opened() {
    assert_refused(405, &["CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"]);
}

#[test]
fn a_target_that_is_too_long_is_refused() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", max_head_size: 256KiB }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        origin.address()
    ));
    let mut client = gateway.client();
    let target = "x".repeat(70_000);
    client.send(format!("GET /{target} HTTP/1.1\r\n{HOST}\r\n").as_bytes());
    assert_eq!(client.response("GET").status, 414);
    assert!(client.is_closed() && origin.received().is_empty());
}

#[test]
fn the_longest_target_is_configured() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\", max_target_size: 1000B }]\n\
         routes: [{ path: \"/*\", respond: { body: ok } }]\n",
    );
    for (len, status) in [(1000, 200), (1001, 414)] {
        let target = format!("/{}", "x".repeat(len - 1));
        assert_eq!(gateway.client().get(&target, &[]).status, status, "{len} bytes");
        let answer = block_on(async {
            let http = Http::prior_knowledge(gateway.address()).await;
            http.get(&target).await
        });
        assert_eq!(answer.status, status, "{len} bytes over HTTP/2");
    }
}

#[test]
fn an_expectation_must_be_known() {
    let fields = format!("POST / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nExpect: 200-ok\r\n\r\n");
    assert_refused(417, &[&fields]);
}

#[test]
fn a_head_that_is_too_large_is_refused_whether_it_ends_or_not() {
    let field = format!("X-Big: {}\r\n", "x".repeat(4_000));
    let many = field.repeat(20);
    let ended = format!("GET / HTTP/1.1\r\n{HOST}{many}\r\n");
    let endless = format!("GET / HTTP/1.1\r\n{HOST}{many}");
    let value = format!("GET / HTTP/1.1\r\n{HOST}X-Big: {}", "x".repeat(80_000));
    let target = format!("GET /{}", "x".repeat(80_000));
    assert_refused(431, &[&ended, &endless, &value]);
    assert_refused(414, &[&target]);
}

#[test]
fn a_head_of_exactly_the_bound_is_accepted_and_one_byte_more_is_not() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let head = |size: usize| {
        let rest = format!("GET / HTTP/1.1\r\n{HOST}X-Big: \r\n\r\n").len();
        format!("GET / HTTP/1.1\r\n{HOST}X-Big: {}\r\n\r\n", "x".repeat(size - rest))
    };
    for (size, status) in [(32 * 1024, 200), (32 * 1024 + 1, 431)] {
        let mut client = gateway.client();
        client.send(head(size).as_bytes());
        assert_eq!(client.response("GET").status, status, "{size} bytes");
    }
}

#[test]
fn too_many_fields_are_refused() {
    let fields: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    assert_refused(431, &[&format!("GET / HTTP/1.1\r\n{HOST}{fields}\r\n")]);
}

/// RFC 9112, section 6.3: a message with both may be an attempt of request smuggling. The
/// HTTP library alone once read it by its chunks and dropped the length.
#[test]
fn a_body_must_have_one_framing() {
    assert_fields_refused(&[
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "content-length: 5\r\nTRANSFER-ENCODING: CHUNKED",
    ]);
}

/// RFC 9112, section 2.2, allows such a line. The gateway does not forward it in this form.
#[test]
fn a_line_may_end_without_a_carriage_return() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"\r\nGET / HTTP/1.1\nHost: a\nX-One: 1\n\n");
    assert_eq!(client.response("GET").status, 200);
    let head = &origin.received()[0].head;
    assert_eq!(head.matches('\n').count(), head.matches("\r\n").count(), "{head:?}");
}

/// The response and the log line have the same fields as for any other request, although
/// little is known of it.
#[test]
fn bytes_that_are_not_a_request_are_answered_and_logged_like_one() {
    let cases = [
        ("GET / HTTP/1.1\r\nBad : 1\r\n\r\n", 400, "blank"),
        ("GET / HTTP/2.0\r\n\r\n", 505, "HTTP/1.1"),
        ("GET /", 408, "in time"),
    ];
    for (bytes, status, detail) in cases {
        let gateway = Gateway::start(
            "listeners: [{ address: \"127.0.0.1:0\", timeouts: { request_head: 200ms } }]\n\
             routes: [{ path: \"/*\", respond: { body: ok } }]\n",
        );
        let mut client = gateway.client();
        client.send(bytes.as_bytes());
        let response = client.response("GET");
        assert_eq!(response.field("content-type"), Some("application/problem+json"));
        let problem = response.json();
        assert_eq!((&problem["status"], &problem["source"]), (&status.into(), &"client".into()));
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(detail)), "{problem}");
        let line = &gateway.access_lines(1)[0];
        assert_eq!(line["request_id"].as_str(), response.field("x-request-id"));
        assert_eq!(problem["request-id"], line["request_id"]);
        assert_eq!((&line["status"], &line["outcome"]), (&status.into(), &"malformed".into()));
        assert_eq!((&line["method"], &line["path"]), (&"-".into(), &"*".into()));
    }
}

#[test]
fn requests_before_an_invalid_head_are_answered_first() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let good = format!("GET /good HTTP/1.1\r\n{HOST}\r\n");
    let bad = format!("GET /bad HTTP/1.1\r\n{HOST} folded\r\n\r\n");
    for cut in [0, 10, good.len(), good.len() + 5, 2 * good.len() + 20] {
        let mut client = gateway.client();
        let requests = format!("{good}{good}{bad}{good}");
        let (first, rest) = requests.split_at(cut);
        client.send(first.as_bytes());
        client.send(rest.as_bytes());
        for status in [200, 200, 400] {
            assert_eq!(client.response("GET").status, status);
        }
        assert!(client.is_closed());
    }
    assert!(origin.received().iter().all(|received| received.line().contains("/good")));
    assert_eq!(origin.received().len(), 10);
}
