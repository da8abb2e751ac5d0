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

/// A gateway with a limit of requests and one of tokens, whose upstream answers this.
fn with_fields(form: &str, answer: &'static str) -> (Origin, Gateway) {
    let origin = Origin::answering(move |_| answer.to_owned());
    let gateway = Gateway::forwarding(
        &origin,
        &format!("policies: [requests, tokens], refusals: {form}"),
        "",
        "policies:\n  requests: { key: ip, limit: 2/20s }\n  \
         tokens: { key: ip, limit: 500/hour, algorithm: fixed_window, \
         cost: { reserve: 100, settle: { usage: openai } } }\n",
    );
    (origin, gateway)
}

#[test]
fn all_responses_have_the_fields_of_the_api() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 53\r\n\
                  X-Ratelimit-Remaining-Requests: 9\r\nX-Ratelimit-Limit-Tokens: 40\r\n\
                  X-Ratelimit-Remaining-Tokens: 7\r\nX-Ratelimit-Reset-Tokens: 6m0s\r\n\r\n\
                  {\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":30}}";
    let (_origin, gateway) = with_fields("openai", answer);
    let mut client = gateway.client();
    let first = client.get("/v1/chat", &[]);
    assert_eq!(first.status, 200);
    let numbers = |names: [&str; 4]| names.map(|name| first.number(name));
    let [limit, remaining, token_limit, token_rest] = numbers([
        "X-Ratelimit-Limit-Requests",
        "X-Ratelimit-Remaining-Requests",
        "X-Ratelimit-Limit-Tokens",
        "X-Ratelimit-Remaining-Tokens",
    ]);
    assert_eq!((limit, remaining, token_limit, token_rest), (2, 1, 40, 7), "the smaller rest");
    assert_eq!(first.field("X-Ratelimit-Reset-Tokens"), Some("6m0s"));
    let reset = first.field("X-Ratelimit-Reset-Requests").expect("a duration");
    assert!(reset.ends_with('s') && !reset.contains('.'), "{reset}");
    assert_eq!(client.get("/v1/chat", &[]).status, 200);
    let refused = client.get("/v1/chat", &[]);
    assert_eq!((refused.status, refused.number("X-Ratelimit-Remaining-Requests")), (429, 0));
    // Both answers have cost 50 tokens. A refused request reserves none.
    assert_eq!(refused.number("X-Ratelimit-Remaining-Tokens"), 400);

    let (_origin, gateway) = with_fields("anthropic", answer);
    let response = gateway.client().get("/v1/messages", &[]);
    assert_eq!(response.number("Anthropic-Ratelimit-Requests-Remaining"), 1);
    assert_eq!(response.number("Anthropic-Ratelimit-Tokens-Remaining"), 400);
    let reset = response.field("Anthropic-Ratelimit-Tokens-Reset").expect("a time");
    assert!(reset.ends_with('Z') && reset.len() == "2026-11-27T03:00:00Z".len(), "{reset}");

    for form in ["{ style: openai, fields: false }", "gemini", "mcp"] {
        let (_origin, gateway) = with_fields(form, answer);
        let response = gateway.client().get("/v1/chat", &[]);
        assert_eq!(response.field("X-Ratelimit-Limit-Requests"), None, "{form}");
        assert_eq!(response.field("Anthropic-Ratelimit-Requests-Limit"), None, "{form}");
    }
}
