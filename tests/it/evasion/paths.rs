//! A route is the resource that the backend selects. No spelling of a path, a host or a
//! method evades the route and its counters.

use super::expect;
use crate::support::{Gateway, Origin, StoreKind};

/// One request a day for the policy's key on `/login`. Other paths have no limit.
fn guarded(route: &str, key: &str) -> Gateway {
    StoreKind::Memory.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ p: {{ limit: 1/day, key: {key} }} }}\n\
         routes:\n\
         - {{ {route}, policies: [p], respond: {{ body: guarded }} }}\n\
         - {{ path: \"/*\", respond: {{ body: open }} }}\n"
    ))
}

/// Requests each path in turn. Only the first request is admitted.
fn one_resource(gateway: &Gateway, paths: &[&str]) {
    for (index, path) in paths.iter().enumerate() {
        let wanted = if index == 0 { 200 } else { 429 };
        assert_eq!(gateway.client().get(path, &[]).status, wanted, "{path}");
    }
}

#[test]
fn a_path_has_one_route_in_every_spelling() {
    one_resource(
        &guarded("path: \"/v1/orders:batch\"", "global"),
        &["/v1/orders:batch", "/v1/orders%3Abatch", "/v1/orders%3abatch", "/v1/%6frders:batch"],
    );
    one_resource(
        &guarded("path: \"/caf%C3%A9\"", "global"),
        &["/caf%C3%A9", "/caf%c3%a9", "/caf\u{e9}", "//caf\u{e9}"],
    );
    one_resource(
        &guarded("path: /login", "global"),
        &["/login", "/login;x", "/login;x=1;y", "/login%3Bx", "/login/", "/Login", "/%4Cogin/;x"],
    );
    one_resource(&guarded("path: \"/grpc.*\"", "global"), &["/grpc.A/b", "/Grpc.A/b"]);
}

#[test]
fn a_route_may_compare_paths_exactly() {
    let exact =
        "path: /login, path_match: { case: exact, trailing_slash: exact, parameters: exact }";
    expect(
        &guarded(exact, "global"),
        &[
            ("/login", &[], 200),
            ("/login", &[], 429),
            ("/%6cogin", &[], 429),
            ("/Login", &[], 200),
            ("/login/", &[], 200),
            ("/login;x", &[], 200),
        ],
    );
}

#[test]
fn a_parameter_of_a_path_has_one_counter_in_every_spelling() {
    one_resource(
        &guarded("path: \"/t/{tenant}\"", "\"param:tenant\""),
        &["/t/a:b", "/t/a%3Ab", "/t/%61%3ab", "/t/a:b;x=1", "/t/a:b/", "/T/a:b"],
    );
    one_resource(
        &guarded("path: \"/t/*\"", "path"),
        &["/t/a%2Cb", "/t/a,b", "/T/A,b/", "/t/a,b;v=1", "//t//a,b"],
    );
}

#[test]
fn an_escaped_slash_evades_no_route() {
    expect(
        &guarded("path: \"/v1/login\"", "global"),
        &[
            ("/v1/login", &[], 200),
            ("/v1%2Flogin", &[], 400),
            ("/v1%2flogin", &[], 400),
            ("/v1/login%2F", &[], 400),
            // The slash makes no difference to this route.
            ("/v2/group%2Fproject", &[], 200),
        ],
    );
    expect(
        &guarded("path: /a/b", "global"),
        &[
            ("/a/b", &[], 200),
            ("/a%2F/b", &[], 400),
            // Servlet containers remove the parameter, decode the slash and merge the slashes.
            ("/a%2F;x/b", &[], 400),
            ("/a/;x%2Fb", &[], 400),
            ("/a%2f%3B/b", &[], 400),
            ("/a%2Fc;x/d", &[], 200),
        ],
    );
    expect(
        &guarded("path: \"/p/*\"", "path"),
        &[("/p/a/b", &[], 200), ("/p/a%2Fb", &[], 429), ("/p/a%2F;/b", &[], 400)],
    );
    expect(
        &guarded("path: \"/t/{tenant}/*\"", "\"param:tenant\""),
        &[("/t/acme", &[], 200), ("/t/acme%2Fx", &[], 400), ("/t/acme/a%2Fb", &[], 429)],
    );
    let exact = "path: \"/{package}\", path_match: { escaped_slash: exact }";
    expect(
        &guarded(exact, "\"param:package\""),
        &[("/@a%2Fb", &[], 200), ("/@a%2Fb", &[], 429), ("/@a%2Fc", &[], 200)],
    );
}

#[test]
fn a_host_has_one_route_in_every_spelling() {
    let gateway = guarded("hosts: [api.example.com], path: \"/*\"", "global");
    let status = |host: &str| {
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        client.response("GET").status
    };
    assert_eq!(status("api.example.com"), 200);
    for spelling in
        ["API.Example.com", "api.example.com:80", "api.example.com.", "api.example.com.:8"]
    {
        assert_eq!(status(spelling), 429, "{spelling}");
    }
    for bad in ["api.example.com..", "%61pi.example.com", "api.example.com,x", "api.example.com;x"]
    {
        assert_eq!(status(bad), 400, "{bad}");
    }
    assert_eq!(status("other.example.com"), 200);
}

#[test]
fn a_field_that_replaces_the_method_evades_no_route() {
    let gateway = guarded("path: /login, methods: [DELETE, POST]", "global");
    let status = |method: &str, fields: &[&str]| {
        gateway.client().request(method, "/login", fields, b"").status
    };
    assert_eq!(status("POST", &["X-HTTP-Method-Override: DELETE"]), 200);
    assert_eq!(status("DELETE", &[]), 429);
    assert_eq!(status("PUT", &["X-HTTP-Method-Override: DELETE"]), 400);
    assert_eq!(status("PUT", &["X-HTTP-Method: delete"]), 400);
    assert_eq!(status("PUT", &["X-Method-Override: POST", "X-HTTP-Method: PUT"]), 400);
    assert_eq!(status("PUT", &["X-HTTP-Method-Override: PATCH"]), 200);
    assert_eq!(status("GET", &["X-HTTP-Method-Override: DELETE"]), 200, "no backend heeds it");
}

/// The normal form is only compared, and not forwarded.
#[test]
fn the_backend_gets_a_path_as_it_was_sent() {
    let origin = Origin::hello();
    let gateway = Gateway::limiting(&origin, "key: path, limit: 100/minute");
    for path in ["/A%3ab;x=1//c%2Fd/", "/caf\u{e9}?q=%41"] {
        assert_eq!(gateway.client().get(path, &[]).status, 200);
    }
    let lines: Vec<_> = origin.received().iter().map(|it| it.line().to_owned()).collect();
    assert_eq!(lines, ["GET /A%3ab;x=1//c%2Fd/ HTTP/1.1", "GET /caf\u{e9}?q=%41 HTTP/1.1"]);
}
