//! The lines and fields that arrive at the origin and at the client.

use crate::support::{Gateway, Origin, Received};

const TRUSTING: &str = "client: { trusted_proxies: [127.0.0.0/8] }";

/// The request that an origin gets for these bytes, without limits.
fn arrived(top: &str, request: &str) -> Received {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", top);
    let mut client = gateway.client();
    client.send(request.as_bytes());
    assert_eq!(client.response("GET").status, 200, "{request:?}");
    origin.received().pop().expect("it was forwarded")
}

#[test]
fn a_request_is_forwarded_unchanged() {
    let got = arrived(
        "",
        "PATCH /a//b%2Fc/?q=%20&r HTTP/1.1\r\nHost: shop.example:8080\r\nX-One: 1\r\n\
         X-Many: a\r\nX-Many: b\r\nX-Latin: \u{e9}\r\nContent-Length: 4\r\n\r\nbody",
    );
    assert_eq!(got.line(), "PATCH /a//b%2Fc/?q=%20&r HTTP/1.1");
    assert_eq!(got.fields("host"), ["shop.example:8080"]);
    assert_eq!(got.fields("x-one"), ["1"]);
    assert_eq!(got.fields("x-many"), ["a", "b"]);
    assert_eq!(got.fields("x-latin"), ["\u{e9}"]);
    assert_eq!(got.fields("content-length"), ["4"]);
    assert_eq!(got.body, b"body");
}

#[test]
fn the_origin_is_told_the_client_and_the_proxies() {
    let got = arrived("", "GET / HTTP/1.1\r\nHost: shop.example\r\nVia: 1.1 cdn\r\n\r\n");
    assert_eq!(got.fields("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(got.fields("x-forwarded-proto"), ["http"]);
    assert_eq!(got.fields("x-forwarded-host"), ["shop.example"]);
    assert!(got.fields("x-forwarded-port")[0].parse::<u16>().is_ok());
    assert_eq!(got.fields("via").join(", "), "1.1 cdn, 1.1 tollgate");
    assert_eq!(got.fields("x-request-id")[0].len(), 32);
}

#[test]
fn forwarding_fields_of_an_untrusted_peer_are_dropped() {
    let top = "client: { forwarded_header: x-client, user: { header: x-user }, \
               trusted_proxies: [192.0.2.0/24] }";
    let got = arrived(
        top,
        "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.1\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Port: 1\r\n\
         Forwarded: for=203.0.113.1\r\nX-Real-Ip: 203.0.113.1\r\nX-Client: 203.0.113.1\r\n\
         X-User: root\r\n\r\n",
    );
    assert_eq!(got.fields("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(got.fields("x-forwarded-proto"), ["http"]);
    assert_eq!(got.fields("x-forwarded-host"), ["shop.example"]);
    assert_ne!(got.fields("x-forwarded-port"), ["1"]);
    for name in ["forwarded", "x-real-ip", "x-client", "x-user"] {
        assert!(got.fields(name).is_empty(), "{name} came through: {}", got.head);
    }
}

#[test]
fn forwarding_fields_of_a_trusted_proxy_are_extended() {
    let got = arrived(
        TRUSTING,
        "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 203.0.113.1\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: www.example\r\nX-Real-Ip: 203.0.113.1\r\n\r\n",
    );
    assert_eq!(got.fields("x-forwarded-for").join(", "), "203.0.113.1, 127.0.0.1");
    assert_eq!(got.fields("x-forwarded-proto"), ["https"]);
    assert_eq!(got.fields("x-forwarded-host"), ["www.example"]);
    assert_eq!(got.fields("x-real-ip"), ["203.0.113.1"]);
}

#[test]
fn hop_by_hop_fields_are_not_forwarded() {
    let got = arrived(
        "",
        "GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAAQAAP__\r\nTE: gzip, trailers\r\nX-End: 1\r\n\r\n",
    );
    for name in ["connection", "x-hop", "keep-alive", "proxy-connection", "upgrade"] {
        assert!(got.fields(name).is_empty(), "{name} came through: {}", got.head);
    }
    assert_eq!(got.fields("te"), ["trailers"]);
    assert_eq!(got.fields("x-end"), ["1"]);
}

/// Otherwise a client could remove fields with which the gateway tells the backend about
/// the client.
#[test]
fn connection_cannot_remove_fields_of_the_gateway() {
    let got = arrived(
        "",
        "GET / HTTP/1.1\r\nHost: shop.example\r\n\
         Connection: close, host, x-forwarded-for, via, x-request-id\r\n\r\n",
    );
    for name in ["host", "x-forwarded-for", "via", "x-request-id"] {
        assert_eq!(got.fields(name).len(), 1, "{name} is missing: {}", got.head);
    }
}

#[test]
fn hop_by_hop_fields_of_a_backend_are_not_relayed() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nConnection: x-hop, te\r\nX-Hop: 1\r\nTE: trailers\r\n\
         Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\n\
         Expect: 100-continue\r\nX-End: 1\r\nContent-Length: 0\r\n\r\n"
            .to_owned()
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let got = gateway.client().get("/", &[]);
    let names =
        ["connection", "x-hop", "te", "keep-alive", "proxy-authenticate", "upgrade", "expect"];
    for name in names {
        assert_eq!(got.field(name), None, "{name} came through");
    }
    assert_eq!(got.field("x-end"), Some("1"));
}

#[test]
fn a_printable_request_id_is_kept_and_sent_to_both_sides() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &["X-Request-Id: mine-1"]).field("x-request-id"), Some("mine-1"));
    let replaced = client.get("/", &[&format!("X-Request-Id: {}", "x".repeat(200))]);
    let received = origin.received();
    assert_eq!(received[0].fields("x-request-id"), ["mine-1"]);
    assert_eq!(received[1].fields("x-request-id"), [replaced.field("x-request-id").unwrap()]);
    assert_eq!(received[1].fields("x-request-id")[0].len(), 32);
}

#[test]
fn a_response_is_relayed_unchanged() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 201 Made\r\nDate: Sat, 21 Nov 2026 08:00:00 GMT\r\nServer: origin/1\r\n\
         Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Hop: 1\r\nConnection: X-Hop\r\n\
         Keep-Alive: timeout=5\r\nContent-Length: 4\r\n\r\nmade"
            .to_owned()
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let response = gateway.client().get("/", &[]);
    assert_eq!((response.status, response.text().as_str()), (201, "made"));
    assert_eq!(response.field("Date"), Some("Sat, 21 Nov 2026 08:00:00 GMT"));
    assert_eq!(response.field("Server"), Some("origin/1"));
    let cookies = response.fields.iter().filter(|(name, _)| name == "set-cookie");
    let cookies: Vec<&str> = cookies.map(|(_, value)| &**value).collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!((response.field("X-Hop"), response.field("Keep-Alive")), (None, None));
}

#[test]
fn a_target_in_absolute_form_reaches_the_origin_as_a_path() {
    let got = arrived("", "GET http://shop.example/a?b HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    assert_eq!(got.line(), "GET /a?b HTTP/1.1");
    assert_eq!(got.fields("host"), ["shop.example"]);
}

/// One host has several spellings (RFC 9110, section 4.2.3). The origin gets that of the target (RFC
/// 9112, section 3.2.2), and a path that begins with a slash.
#[test]
fn a_target_in_absolute_form_may_spell_its_host_otherwise() {
    for (target, host, line, sent) in [
        ("http://A.example/x", "a.example", "GET /x HTTP/1.1", "A.example"),
        ("http://a.example:80/x", "a.example", "GET /x HTTP/1.1", "a.example:80"),
        ("http://a.example/x", "a.example:80", "GET /x HTTP/1.1", "a.example"),
        ("http://a.example:/x", "a.example", "GET /x HTTP/1.1", "a.example:"),
        ("https://a.example/x", "a.example:443", "GET /x HTTP/1.1", "a.example"),
        ("http://a.example./x", "a.example", "GET /x HTTP/1.1", "a.example."),
        ("http://a.example/x", "a.example.:80", "GET /x HTTP/1.1", "a.example"),
        ("http://[::1]/x", "[0:0::1]:80", "GET /x HTTP/1.1", "[::1]"),
        ("http://a.example:81/x", "A.example:0081", "GET /x HTTP/1.1", "a.example:81"),
        ("http://a.example", "a.example", "GET / HTTP/1.1", "a.example"),
        ("http://a.example?x=1", "a.example", "GET /?x=1 HTTP/1.1", "a.example"),
        ("http://a.example?", "a.example", "GET /? HTTP/1.1", "a.example"),
        ("http://a.example?/x", "a.example", "GET /?/x HTTP/1.1", "a.example"),
    ] {
        let got = arrived("", &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((got.line(), got.fields("host")), (line, vec![sent]), "{target} {host}");
        assert_eq!(got.fields("x-forwarded-host"), [sent], "{target} {host}");
    }
}

/// A list of expectations may be empty (RFC 9110, sections 5.6.1 and 10.1.1).
#[test]
fn an_empty_expectation_is_none() {
    for expect in ["", " ", ","] {
        let got = arrived(
            "",
            &format!(
                "POST / HTTP/1.1\r\nHost: a\r\nExpect:{expect}\r\nContent-Length: 2\r\n\r\nhi"
            ),
        );
        assert_eq!((got.fields("expect"), &got.body[..]), (vec![], &b"hi"[..]), "{expect:?}");
    }
}

/// The host of the target takes precedence, and a client of HTTP/1.0 need not send a
/// `Host` (RFC 9112, section 3.2.2).
#[test]
fn the_host_of_a_target_in_absolute_form_is_sent_to_the_origin() {
    let got = arrived("", "GET http://shop.example/a HTTP/1.0\r\n\r\n");
    assert_eq!(got.fields("host"), ["shop.example"]);
    assert_eq!(got.fields("x-forwarded-host"), ["shop.example"]);
}

#[test]
fn options_may_ask_about_the_server_as_a_whole() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    assert_eq!(gateway.client().request("OPTIONS", "*", &[], b"").status, 200);
    assert_eq!(origin.received()[0].line(), "OPTIONS * HTTP/1.1");
}

#[test]
fn a_client_of_http_1_0_is_served() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned()
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    let response = client.response("GET");
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    assert_eq!(response.framing, "close", "chunks are unknown to it: {response:#?}");
    assert_eq!(origin.received()[0].fields("via"), ["1.0 tollgate"]);
    assert_eq!(origin.received()[0].line(), "GET / HTTP/1.1");
}

#[test]
fn a_client_of_http_1_0_may_keep_its_connection() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response("GET");
        assert_eq!((response.status, response.framing), (200, "length"));
        let kept = response.field("Connection").map(str::to_lowercase);
        assert_eq!(kept.as_deref(), Some("keep-alive"));
    }
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response("GET").status, 200);
    assert!(client.is_closed());
}

/// Regression: a response without a length was told to leave the connection open, and ended with it.
#[test]
fn a_client_of_http_1_0_is_told_that_a_response_without_a_length_ends_its_connection() {
    const ASKED: &str = " / HTTP/1.0\r\nConnection: keep-alive\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2000\r\n\r\n";
    let text = format!("{text}{}", "a".repeat(2000));
    let compressed = "compress: {}";
    for (answer, route, field) in
        [(chunked, "", ""), (&*text, compressed, "Accept-Encoding: gzip\r\n")]
    {
        let answer = answer.to_owned();
        let origin = Origin::answering(move |_| answer.clone());
        let gateway = Gateway::forwarding(&origin, route, "", "");
        let mut client = gateway.client();
        client.send(format!("GET{ASKED}{field}\r\n").as_bytes());
        let response = client.response("GET");
        assert_eq!((response.status, response.framing), (200, "close"), "{response:?}");
        let said: Vec<_> =
            response.fields.iter().filter(|(name, _)| name == "connection").collect();
        assert!(matches!(&said[..], [(_, close)] if close == "close"), "{said:?}");
        assert!(client.is_closed());
    }
    // A response without a body needs no length.
    let origin = Origin::answering(|request| match request.line().starts_with("HEAD") {
        true => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        false => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    for method in ["HEAD", "GET", "HEAD"] {
        client.send(format!("{method}{ASKED}\r\n").as_bytes());
        let kept = client.response(method).field("Connection").map(str::to_lowercase);
        assert_eq!(kept.as_deref(), Some("keep-alive"), "{method}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default().to_owned();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len())
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    let mut bytes = String::new();
    for n in 0..20 {
        let (method, body) = if n % 3 == 0 { ("POST", "12345") } else { ("GET", "") };
        bytes.push_str(&format!("{method} /{n} HTTP/1.1\r\nHost: a\r\n"));
        bytes.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    }
    client.send(bytes.as_bytes());
    for n in 0..20 {
        assert_eq!(client.response("GET").text(), format!("/{n}"));
    }
}

#[test]
fn big_heads_pass_both_ways() {
    let big = "x".repeat(20_000);
    let answer = big.clone();
    let origin = Origin::answering(move |_| {
        format!("HTTP/1.1 200 OK\r\nX-Big: {answer}\r\nContent-Length: 0\r\n\r\n")
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let response =
        gateway.client().get(&format!("/{}", "p".repeat(8000)), &[&format!("X-Big: {big}")]);
    assert_eq!((response.status, response.field("X-Big")), (200, Some(&*big)));
    let received = origin.received();
    assert_eq!(received[0].fields("x-big"), [&*big]);
    assert_eq!(received[0].line().len(), "GET / HTTP/1.1".len() + 8000);
}

#[test]
fn a_request_has_one_id() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nX-Request-Id: a\r\nX-Request-Id: b\r\nContent-Length: 0\r\n\r\n"
            .to_owned()
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let ids: [(&[&str], Option<&str>); 4] = [
        (&["X-Request-Id: good"], Some("good")),
        (&["X-Request-Id: two words"], None),
        (&["X-Request-Id: good", "X-Request-Id: two words"], None),
        (&["X-Request-Id: good", "X-Request-Id: good"], None),
    ];
    for (sent, kept) in ids {
        let response = gateway.client().get("/", sent);
        let received = origin.received().pop().expect("it was forwarded");
        let told = response.fields.iter().filter(|(name, _)| name == "x-request-id");
        let told: Vec<&str> = told.map(|(_, value)| &**value).collect();
        assert_eq!(received.fields("x-request-id"), told, "{sent:?}");
        assert_eq!(told.len(), 1, "{sent:?}");
        assert!(kept.map_or(told[0].len() == 32, |kept| told[0] == kept), "{sent:?}: {told:?}");
    }
}
