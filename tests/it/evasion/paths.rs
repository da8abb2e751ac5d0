//! A route is what the backend takes for the resource. No spelling of a path, a
//! host or a method leads past the route and the counters that it is for.

use super::expect;
use crate::support::{Gateway, Origin, Place};

/// One request a day for what the policy counts on `/login`, and none on others.
fn guarded(route: &str, key: &str) -> Gateway {
    Place::Memory.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ p: {{ limit: 1/day, key: {key} }} }}\n\
         routes:\n\
         - {{ {route}, policies: [p], respond: {{ body: guarded }} }}\n\
         - {{ path: \"/*\", respond: {{ body: open }} }}\n"
    ))
}

/// Asks for each path in turn. The first one is admitted, and no other is.
fn one_resource(gateway: &Gateway, paths: &[&str]) {
    for (index, path) in paths.iter().enumerate() {
        let wanted = if index == 0 { 200 } else { 429 };
        assert_eq!(gateway.client().get(path, &[]).status, wanted, "{path}");
    }
}

#[test]
fn a_path_has_one_route_however_it_is_spelt() {
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
fn an_owner_who_knows_the_backend_has_paths_compared_exactly() {
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
fn a_parameter_of_a_path_has_one_counter_however_it_is_spelt() {
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
fn an_escaped_slash_leads_past_no_route() {
    expect(
        &guarded("path: \"/v1/login\"", "global"),
        &[
            ("/v1/login", &[], 200),
            ("/v1%2Flogin", &[], 400),
            ("/v1%2flogin", &[], 400),
            ("/v1/login%2F", &[], 400),
            // Nothing hangs on it here.
            ("/v2/group%2Fproject", &[], 200),
        ],
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
fn a_host_has_one_route_however_it_is_spelt() {
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
fn a_field_that_replaces_the_method_leads_past_no_route() {
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

/// What the rules compare is not what is forwarded.
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
