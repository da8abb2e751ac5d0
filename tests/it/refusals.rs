//! Refusals for clients that do not read problem documents, and requests that are never
//! refused.

use crate::support::{Gateway, Origin, StoreKind, on_every_store};

on_every_store!(
    a_preflight_is_not_counted_but_other_options_are,
    a_policy_may_configure_its_refusal,
    a_grpc_call_is_refused_with_a_grpc_status,
);

fn a_preflight_is_not_counted_but_other_options_are(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 1/day");
    let mut client = gateway.client();
    let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: PUT"];
    let mut status = |fields: &[&str]| client.request("OPTIONS", "/", fields, b"").status;
    assert_eq!([0; 3].map(|_| status(&preflight)), [200; 3]);
    assert_eq!([0; 2].map(|_| status(&preflight[..1])), [200, 429]);
    assert_eq!(status(&preflight), 200);
}

fn a_policy_may_configure_its_refusal(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/day, response: { status: 503, \
                  content_type: application/json, \
                  body: '{\"by\":\"{policy}\",\"of\":{limit},\"left\":{remaining},\
                  \"wait\":{retry_after}}' }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    let refused = client.get("/", &[]);
    assert_eq!(refused.status, 503);
    assert_eq!(refused.field("Content-Type"), Some("application/json"));
    let said = refused.json();
    assert_eq!(
        (&said["by"], &said["of"], &said["left"]),
        (&"per-client".into(), &1.into(), &0.into())
    );
    assert_eq!(said["wait"], refused.number("Retry-After"));
}

fn a_grpc_call_is_refused_with_a_grpc_status(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 1/day");
    let mut client = gateway.client();
    let mut call = || {
        client.request("POST", "/shop.Orders/List", &["Content-Type: application/grpc+proto"], b"x")
    };
    assert_eq!(call().field("grpc-status"), None, "the first is the origin's to answer");
    let refused = call();
    assert_eq!((refused.status, refused.field("grpc-status")), (200, Some("8")));
    assert_eq!(refused.field("Content-Type"), Some("application/grpc"));
    let message = refused.field("grpc-message").expect("it says why");
    let wait_s = refused.number("Retry-After");
    assert!(message.contains(&format!("{wait_s} seconds")), "{message}");
    assert_eq!((refused.body.len(), origin.received().len()), (0, 1));
}

#[test]
fn a_route_refuses_in_the_form_of_its_api() {
    let origin = Origin::hello();
    let gateway = |form: &str, limit: &str| {
        Gateway::forwarding(
            &origin,
            &format!("policies: [p], refusals: {form}"),
            "",
            &format!("policies: {{ p: {{ key: ip, limit: {limit} }} }}"),
        )
    };
    let refused = |form: &str, limit: &str| {
        let gateway = gateway(form, limit);
        let mut client = gateway.client();
        assert_eq!(client.get("/v1/chat", &[]).status, 200);
        let refused = client.get("/v1/chat", &["Accept: text/html,application/xhtml+xml"]);
        assert_eq!(refused.status, 429);
        refused
    };
    // A wait of seconds: client libraries wait, and try again.
    for form in ["openai", "anthropic"] {
        let refused = refused(form, "1/20s");
        assert_eq!(refused.field("Content-Type"), Some("application/json"));
        let wait_ms = refused.number("Retry-After-Ms");
        assert_eq!(wait_ms.div_ceil(1000), refused.number("Retry-After"));
        assert_eq!(refused.field("X-Should-Retry"), None, "{form}");
    }
    // A wait of hours: they stop.
    let stopped = refused("openai", "1/day");
    assert_eq!(stopped.field("X-Should-Retry"), Some("false"));
    assert_eq!(stopped.json()["error"]["code"], "insufficient_quota");
    let stopped = refused("anthropic", "1/day");
    assert_eq!(stopped.field("X-Should-Retry"), Some("false"));
    assert_eq!(stopped.json()["error"]["type"], "rate_limit_error");
    assert_eq!(stopped.json()["request_id"], stopped.field("X-Request-Id").expect("an id"));
    let gemini = refused("gemini", "1/20s").json();
    assert_eq!(gemini["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(gemini["error"]["details"][0]["@type"], "type.googleapis.com/google.rpc.RetryInfo");
    let problem = refused("problem", "1/day");
    assert_eq!(problem.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(problem.field("X-Should-Retry"), None);
}

#[test]
fn failures_of_a_route_have_the_form_of_its_api_too() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         upstreams: { away: { endpoints: [\"http://127.0.0.1:1\"] } }\n\
         policies: { p: { key: ip, limit: 1/20s, response: { status: 429, body: mine } } }\n\
         routes:\n\
         - { path: /away, upstream: away, refusals: openai }\n\
         - { path: /mine, policies: [p], respond: { status: 200 }, refusals: openai }\n",
    );
    let mut client = gateway.client();
    let failed = client.get("/away", &[]);
    assert_eq!((failed.status, &failed.json()["error"]["type"]), (502, &"server_error".into()));
    // The response of a policy takes precedence.
    assert_eq!(client.get("/mine", &[]).status, 200);
    let refused = client.get("/mine", &[]);
    assert_eq!((refused.status, refused.text().as_str()), (429, "mine"));
    // A gRPC call keeps the form that its client reads, and without a route there is no API.
    let call = client.request("POST", "/away", &["Content-Type: application/grpc"], b"x");
    assert_eq!(call.field("grpc-status"), Some("14"));
    assert!(client.get("/elsewhere", &[]).json()["error"].is_null());
}
