//! Actions of a route other than forwarding: redirects, other targets, edited fields, time
//! limits.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::http::{Http, block_on};
use crate::support::{Gateway, Origin, Received, Response};

/// The request that the origin gets for `path` from a route with these fields.
fn arrived(route: &str, top: &str, path: &str, fields: &[&str]) -> Received {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ upstream: app, {route} }}]\n{top}\n",
        origin.address()
    ));
    assert_eq!(gateway.client().get(path, fields).status, 200);
    origin.received().pop().expect("it was forwarded")
}

/// The response of a route that needs no upstream.
fn answer(route: &str, method: &str, path: &str) -> Response {
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\nroutes: [{{ {route} }}]\n"
    ));
    gateway.client().request(method, path, &[], b"")
}

/// All services of a package have one route, whatever their names and methods.
#[test]
fn one_route_matches_all_paths_with_a_common_prefix_of_the_last_segment() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes:\n\
         \x20 - { path: /shop.v1.Admin/*, respond: { body: admin } }\n\
         \x20 - { path: /shop.*, respond: { body: shop } }\n\
         \x20 - { path: /shop.v2.Cart/Add, respond: { body: never } }\n\
         \x20 - { path: /grpc.*, respond: { body: grpc } }\n",
    );
    let mut client = gateway.client();
    for (path, body) in [
        ("/shop.v1.Cart/Add", "shop"),
        ("/shop.v2.Cart/Add", "shop"),
        ("/shop.v1.Admin/Drop", "admin"),
        ("/grpc.health.v1.Health/Check", "grpc"),
        ("/grp%63.reflection.v1.ServerReflection/Info", "grpc"),
        ("/Shop.v1.Admin/Drop", "admin"),
    ] {
        assert_eq!(client.get(path, &[]).text(), body, "{path}");
    }
    for path in ["/shop", "/shopping", "/x/shop.v1.Cart/Add"] {
        assert_eq!(client.get(path, &[]).status, 404, "{path}");
    }
    let log = gateway.log();
    assert!(log.contains("route 3 can never match: route 2 before it"), "{log}");
}

#[test]
fn a_removed_prefix_is_sent_to_the_backend_in_a_field() {
    let route = "path: /v1/*, rewrite: { strip_prefix: /v1 }";
    let got = arrived(route, "", "/v1/orders/a%2Fb?q=%20&v1", &["X-Forwarded-Prefix: //evil"]);
    assert_eq!(got.line(), "GET /orders/a%2Fb?q=%20&v1 HTTP/1.1");
    assert_eq!(got.fields("x-forwarded-prefix"), ["/v1"]);
    assert_eq!(got.fields("host"), ["gateway.test"]);
    for (path, line) in [
        ("/v1", "GET / HTTP/1.1"),
        ("/%76%31/x", "GET /x HTTP/1.1"),
        ("//v1///evil.example/x", "GET /evil.example/x HTTP/1.1"),
    ] {
        assert_eq!(arrived(route, "", path, &[]).line(), line, "{path}");
    }
}

#[test]
fn a_prefix_that_a_trusted_proxy_removed_is_kept() {
    let route = "path: /v1/*, rewrite: { strip_prefix: /v1, add_prefix: /api/v2 }";
    let top = "client: { trusted_proxies: [127.0.0.0/8] }";
    let got = arrived(route, top, "/v1/x?q", &["X-Forwarded-Prefix: /shop"]);
    assert_eq!(got.line(), "GET /api/v2/x?q HTTP/1.1");
    assert_eq!(got.fields("x-forwarded-prefix"), ["/shop/v1"]);
}

#[test]
fn a_target_that_a_prefix_makes_too_long_is_refused() {
    const LONGEST: usize = 65_534;
    let prefix = format!("/{}", "p".repeat(99));
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", max_head_size: 128KiB }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, rewrite: {{ add_prefix: {prefix} }} }}]\n",
        origin.address()
    ));
    let path = |length: usize| format!("/{}", "x".repeat(length - 1));
    for (length, status) in [(LONGEST - 99, 414), (LONGEST, 414), (LONGEST - 100, 200)] {
        let response = gateway.client().get(&path(length), &[]);
        assert_eq!(response.status, status, "{length}");
    }
    block_on(async {
        let http = Http::prior_knowledge(gateway.address()).await;
        assert_eq!(http.get(&path(LONGEST - 99)).await.status, 414);
        assert_eq!(http.get("/").await.status, 200);
    });
    assert_eq!(origin.received().len(), 2, "only what is short enough is forwarded");
}

#[test]
fn the_backend_gets_another_host_and_the_original_one_in_a_field() {
    let got = arrived("path: /*, rewrite: { host: \"internal.example:81\" }", "", "/", &[]);
    assert_eq!(got.fields("host"), ["internal.example:81"]);
    assert_eq!(got.fields("x-forwarded-host"), ["gateway.test"]);
}

#[test]
fn fields_of_a_request_are_set_and_removed() {
    let route = "path: /*, request_headers: { set: { x-from: gateway, X-Forwarded-Proto: https }, \
                 remove: [x-secret, via] }";
    let sent = ["X-From: client", "X-From: again", "X-Secret: 1", "X-Other: 2"];
    let got = arrived(route, "", "/", &sent);
    assert_eq!(got.fields("x-from"), ["gateway"]);
    assert_eq!(got.fields("x-forwarded-proto"), ["https"]);
    assert_eq!(got.fields("x-other"), ["2"]);
    assert!(got.fields("x-secret").is_empty() && got.fields("via").is_empty(), "{}", got.head);
}

#[test]
fn fields_of_a_response_are_set_and_removed() {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nServer: origin/1\r\nX-Powered-By: php\r\nX-Ratelimit-Limit: 3\r\n\
         Content-Length: 0\r\n\r\n"
            .to_owned()
    });
    let route = "response_headers: { set: { x-frame-options: DENY, server: shop }, \
                 remove: [x-powered-by, x-ratelimit-limit] }";
    let gateway = Gateway::forwarding(&origin, route, "", "");
    let response = gateway.client().get("/", &[]);
    assert_eq!(response.field("X-Frame-Options"), Some("DENY"));
    assert_eq!(response.field("Server"), Some("shop"));
    assert_eq!(response.field("X-Powered-By"), None);
    assert_eq!(response.field("X-Ratelimit-Limit"), None);
}

#[test]
fn own_responses_get_further_fields_and_lose_none() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { tiny: { key: ip, limit: 1/day } }\n\
         routes: [{ path: /*, policies: [tiny], respond: { body: ok }, response_headers: \
         { set: { access-control-allow-origin: \"*\", content-type: text/html }, \
           remove: [x-ratelimit-remaining, retry-after] } }]\n",
    );
    let mut client = gateway.client();
    let own = [client.get("/", &[]), client.get("/", &[])];
    let types = own.each_ref().map(|answer| answer.field("Content-Type"));
    assert_eq!(types, [Some("text/plain; charset=utf-8"), Some("application/problem+json")]);
    for answer in &own {
        assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("*"));
        assert_eq!(answer.number("X-Ratelimit-Remaining"), 0);
        assert!(answer.field("X-Request-Id").is_some());
    }
    assert!(own[1].number("Retry-After") > 0);
}

#[test]
fn a_redirect_has_the_configured_target() {
    let cases = [
        (
            "path: /*, redirect: { to: \"https://{host}{path}{query}\" }",
            "/a//b?x=%0d%0a",
            308,
            "https://gateway.test/a//b?x=%0d%0a",
        ),
        (
            "path: \"/old/{id}\", redirect: { to: \"/new/{id}\", status: 301 }",
            "/old/7?x",
            301,
            "/new/7",
        ),
        (
            "path: /*, redirect: { to: \"{path}/\", status: 302 }",
            "//evil.example",
            302,
            "/evil.example/",
        ),
        ("path: /*, redirect: { to: \"{path}/login\", status: 302 }", "/", 302, "/login"),
        (
            "path: \"/{id}\", path_match: { escaped_slash: exact }, \
             redirect: { to: \"/x/{id}\", status: 307 }",
            "/a%20%3Fb%2f%2Fc@",
            307,
            "/x/a%20%3Fb%2F%2Fc%40",
        ),
    ];
    for (route, path, status, location) in cases {
        let response = answer(route, "GET", path);
        assert_eq!((response.status, response.field("Location")), (status, Some(location)));
        assert!(response.body.is_empty() && response.field("X-Request-Id").is_some());
    }
    let bad = answer("path: \"/{id}\", redirect: { to: \"/x/{id}\" }", "GET", "/a%0D%0Ab");
    assert_eq!((bad.status, bad.field("Location")), (400, None));
    let response = answer("path: /*, redirect: { to: /x, status: 303 }", "POST", "/");
    assert_eq!((response.status, response.field("Location")), (303, Some("/x")));
}

#[test]
fn a_request_without_a_host_is_not_redirected_to_its_host() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         routes: [{ path: /*, redirect: { to: \"https://{host}/\" } }]\n",
    );
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response("GET").status, 400);
}

#[test]
fn forwarded_is_written_and_extended_if_trusted_proxies_use_it() {
    let speaking = |more: &str| format!("client: {{ forwarded_header: forwarded, {more} }}");
    let sent = ["Forwarded: for=203.0.113.1"];
    let own = "for=127.0.0.1;proto=http;host=\"gateway.test\"";
    let got = arrived("path: /*", &speaking("trusted_proxies: []"), "/", &sent);
    assert_eq!(got.fields("forwarded"), [own]);
    assert_eq!(got.fields("x-forwarded-for"), ["127.0.0.1"]);
    let got = arrived("path: /*", &speaking("trusted_proxies: [127.0.0.1]"), "/", &sent);
    assert_eq!(got.fields("forwarded"), ["for=203.0.113.1", own]);
}

/// Sends a piece of a response at intervals, without end.
fn endless() -> Origin {
    Origin::serving(|stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while stream.write_all(b"1\r\n.\r\n").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    })
}

#[test]
fn an_endless_response_is_aborted_by_the_time_limit_of_the_request() {
    let origin = endless();
    let gateway = Gateway::forwarding(&origin, "timeouts: { request: 200ms }", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    assert!(!client.rest().ends_with(b"0\r\n\r\n"), "no end is made up");
    assert_eq!(gateway.access_lines(1)[0]["outcome"], "request_timeout");
}

#[test]
fn each_time_limit_has_its_own_reason() {
    let silent = Origin::serving(|_, read| while read().is_some() {});
    let asked = |timeouts: &str| {
        let gateway = Gateway::forwarding(&silent, &format!("timeouts: {{ {timeouts} }}"), "", "");
        let response = gateway.client().get("/", &[]);
        let outcome = gateway.access_lines(1)[0]["outcome"].clone();
        (response.status, response.json()["source"].clone(), outcome)
    };
    let (status, source, outcome) = asked("response: 100ms, request: 1h");
    assert_eq!((status, source, outcome), (504, "upstream".into(), "upstream_timeout".into()));
    let (status, source, outcome) = asked("response: 1h, request: 100ms");
    assert_eq!((status, source, outcome), (504, "gateway".into(), "request_timeout".into()));
    let stalling = Origin::serving(|stream, read| {
        read();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        read();
    });
    let gateway = Gateway::forwarding(&stalling, "timeouts: { idle: 100ms }", "", "");
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    client.rest();
    assert_eq!(gateway.access_lines(1)[0]["outcome"], "upstream_idle");
}

#[test]
fn a_response_that_ends_in_time_is_whole() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "timeouts: { request: 1h }", "", "");
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/", &[]).text(), "hello");
    }
    assert_eq!(origin.connections(), 1, "its connection is kept");
}
