//! Refusals and failures in the form of JSON-RPC, which belong to the message in the body.

use super::{ADMIN, JSON, body_memory, post, send};
use crate::support::{Gateway, Origin, Response, eventually};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"name":"add"}}"#;
const LIST: &str = r#"{"id":1.50,"jsonrpc":"2.0","method":"tools/list"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A gateway with one request a day for each key of the policy `p`, and this form of refusals.
fn gateway(origin: &Origin, key: &str, refusals: &str, route: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n{ADMIN}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ p: {{ key: {key}, limit: 1/day }} }}\n\
         routes: [{{ path: /*, policies: [p], upstream: app, refusals: {refusals}{route} }}]\n",
        origin.address()
    ))
}

/// A gateway that refuses all requests after this.
fn refusing(origin: &Origin, refusals: &str) -> Gateway {
    let gateway = gateway(origin, "ip", refusals, "");
    assert_eq!(post(&gateway, &[JSON], CALL.as_bytes()).status, 200);
    gateway
}

fn refused(gateway: &Gateway, body: &str) -> Response {
    post(gateway, &[JSON], body.as_bytes())
}

#[test]
fn a_refusal_belongs_to_the_call_in_the_body() {
    let origin = Origin::hello();
    for form in ["jsonrpc", "mcp", "{ style: mcp, tool_errors: error }"] {
        let gateway = refusing(&origin, form);
        let response = refused(&gateway, LIST);
        assert_eq!((response.status, response.field("X-Should-Retry")), (200, None), "{form}");
        assert_eq!(response.field("Content-Type"), Some("application/json"));
        assert!(response.text().contains(r#""id":1.50,"#), "{}", response.text());
        let error = &response.json()["error"];
        assert_eq!((&error["code"], &error["data"]["policy"]), (&429.into(), &"p".into()));
        assert_eq!(error["data"]["limit"], 1);
        let wait_ms = error["data"]["retry_after_ms"].as_u64().expect("a number");
        assert_eq!(wait_ms.div_ceil(1000), response.number("Retry-After"));
        let response = refused(&gateway, CALL);
        assert_eq!((response.status, &response.json()["id"]), (200, &"a".into()));
        let is_result = form == "mcp";
        assert_eq!(response.json()["result"]["isError"].as_bool(), is_result.then_some(true));
        assert_eq!(response.json()["error"].is_null(), is_result, "{form}");
        assert_eq!(gateway.client().get("/", &[]).json()["id"], serde_json::Value::Null);
    }
    assert_eq!(origin.received().len(), 3, "refused requests are not forwarded");
}

#[test]
fn without_an_identifier_a_refusal_has_its_status() {
    let origin = Origin::hello();
    let gateway = refusing(&origin, "mcp");
    let note = refused(&gateway, NOTE);
    assert_eq!((note.status, note.body.len(), note.field("Content-Type")), (429, 0, None));
    assert!(note.number("Retry-After") > 0);
    let big = format!("{{\"method\":\"x\",\"id\":1,\"x\":\"{}\"}}", "y".repeat(1_100_000));
    let nested = r#"{"method":"x","id":{"a":1}}"#;
    for body in [nested, "[]", &format!("[{CALL}]"), "{", "", &big] {
        let response = refused(&gateway, body);
        assert_eq!((response.status, response.json()["error"]["code"].as_u64()), (429, Some(429)));
        assert!(response.json()["id"].is_null());
    }
    let typed = post(&gateway, &["Content-Type: text/plain"], CALL.as_bytes());
    assert_eq!((typed.status, typed.json()["id"].is_null()), (429, true));
    let coded = super::bounds::gzip(CALL.as_bytes());
    assert_eq!(post(&gateway, &[JSON, "Content-Encoding: gzip"], &coded).json()["id"], "a");
    assert_eq!(post(&gateway, &[JSON, "Content-Encoding: br"], b"x").status, 429);
    let chunked =
        super::chunked(&format!("{JSON}\r\n"), &[&CALL.as_bytes()[..9], &CALL.as_bytes()[9..]]);
    assert_eq!(send(&gateway, &chunked).json()["id"], "a");
    let call = post(&gateway, &["Content-Type: application/grpc"], b"x");
    assert_eq!((call.status, call.field("grpc-status")), (200, Some("8")));
}

#[test]
fn the_status_of_refusals_can_be_configured() {
    let origin = Origin::hello();
    for (form, body, status) in [
        ("{ style: openai, status: 503 }", LIST, 503),
        ("{ style: problem, status: 420 }", LIST, 420),
        ("{ style: mcp, status: 429 }", LIST, 429),
        ("{ style: mcp, status: 200 }", LIST, 200),
        ("{ style: mcp, status: 200 }", NOTE, 429),
        ("{ style: mcp, status: 503 }", NOTE, 503),
    ] {
        let response = refused(&refusing(&origin, form), body);
        assert_eq!(response.status, status, "{form} {body}");
        if form.contains("mcp") && body == LIST {
            assert_eq!(response.json()["error"]["code"], 429);
        }
    }
}

#[test]
fn a_body_that_a_policy_has_read_is_not_read_again() {
    let origin = Origin::hello();
    let gateway = gateway(&origin, "\"mcp:tool\"", "mcp", "");
    assert_eq!(refused(&gateway, CALL).status, 200);
    let response = refused(&gateway, CALL);
    assert_eq!((response.status, &response.json()["id"]), (200, &"a".into()));
    assert_eq!(response.json()["result"]["isError"], true);
    assert_eq!(origin.received().len(), 1);
    eventually("nothing is held", || body_memory(&gateway) == 0);
}

#[test]
fn failures_have_the_form_and_the_identifier_too() {
    let origin = Origin::hello();
    let gateway =
        gateway(&origin, "\"mcp:tool\", missing_key: deny", "mcp", ", read_body: { max: 2KiB }");
    let answered = |fields: &[&str], body: &str| {
        let response = post(&gateway, fields, body.as_bytes());
        let error = &response.json()["error"];
        (response.status, error["code"].as_i64().expect("a code"), response.json()["id"].clone())
    };
    let null = serde_json::Value::Null;
    assert_eq!(answered(&[JSON, "Mcp-Name: sub"], CALL), (400, -32020, "a".into()));
    assert_eq!(answered(&[JSON, "Mcp-Method: ping"], CALL), (400, -32020, "a".into()));
    assert_eq!(answered(&[JSON], &format!("[{CALL}]")), (400, -32600, null.clone()));
    assert_eq!(answered(&[JSON], "{"), (400, -32700, null.clone()));
    assert_eq!(answered(&[JSON], r#"{"id":1,"method":"a","Method":"b"}"#).1, -32600);
    assert_eq!(answered(&[JSON], LIST), (403, 403, serde_json::json!(1.5)));
    assert_eq!(answered(&[JSON], &"x".repeat(3000)), (413, 413, null.clone()));
    assert_eq!(answered(&[JSON, "Content-Encoding: br"], CALL), (415, 415, null.clone()));
    assert_eq!(post(&gateway, &[JSON], NOTE.as_bytes()).body, b"");
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         upstreams: { away: { endpoints: [\"http://127.0.0.1:1\"] } }\n\
         policies: { p: { key: \"mcp:tool\", limit: 5/day } }\n\
         client: { user: { jwt: { secret: \"0123456789abcdef0123456789abcdef\", algorithms: [HS256] } } }\n\
         routes:\n\
         - { path: /user, auth: user, upstream: away, refusals: mcp }\n\
         - { path: /*, policies: [p], upstream: away, refusals: mcp }\n",
    );
    let away = post(&gateway, &[JSON], CALL.as_bytes());
    assert_eq!((away.status, &away.json()["error"]["code"]), (502, &502.into()));
    assert_eq!(away.json()["id"], "a");
    let unproved = gateway.client().request("POST", "/user", &[JSON], CALL.as_bytes());
    assert_eq!((unproved.status, &unproved.json()["error"]["code"]), (401, &401.into()));
    assert!(unproved.field("WWW-Authenticate").is_some());
}

/// A refused client that does not send its body waits no longer than others, and takes no more.
#[test]
fn the_bodies_of_refused_requests_have_the_bounds_of_others() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\", timeouts: {{ request_body: 300ms }} }}]\n{ADMIN}\n\
         runtime: {{ body_memory: 1MiB }}\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ p: {{ key: ip, limit: 1/day }} }}\n\
         routes: [{{ path: /*, policies: [p], upstream: app, refusals: mcp, read_body: {{ max: 4MiB }} }}]\n",
        origin.address()
    ));
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    let mut slow = gateway.client();
    slow.send(
        format!("POST / HTTP/1.1\r\nHost: a\r\n{JSON}\r\nContent-Length: 99\r\n\r\n{{").as_bytes(),
    );
    let response = slow.response("POST");
    assert_eq!((response.status, response.field("Connection")), (429, Some("close")));
    let big = format!("{{\"method\":\"x\",\"id\":1,\"x\":\"{}\"}}", "y".repeat(2_000_000));
    let response = refused(&gateway, &big);
    assert_eq!((response.status, response.json()["id"].is_null()), (429, true));
    eventually("nothing is held", || body_memory(&gateway) == 0);
    assert_eq!(refused(&gateway, LIST).status, 200);
}
