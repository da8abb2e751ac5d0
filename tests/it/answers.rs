//! Fields about limits, and the gateway's own responses.

use serde_json::json;

use crate::support::{Client, Gateway, Origin, Reserved, Response};

/// The response to the second request under a limit of one. `policy` and `top` are further
/// fields of the policy and of the file.
fn refusal(policy: &str, top: &str, fields: &[&str]) -> Response {
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ tiny: {{ key: ip, limit: 1/day, {policy} }} }}\n\
         routes: [{{ path: \"/*\", policies: [tiny], respond: {{ body: ok }} }}]\n{top}\n"
    ));
    let mut client = gateway.client();
    assert_eq!(client.get("/", fields).status, 200);
    client.get("/", fields)
}

#[test]
fn a_refusal_says_how_long_to_wait_in_every_dialect_and_in_the_body() {
    let refused = refusal("", "", &["X-Request-Id: id-7"]);
    assert_eq!(refused.status, 429);
    let wait_s = refused.number("Retry-After");
    assert!((1..=2 * 86_400).contains(&wait_s), "{wait_s}");
    assert_eq!(refused.number("X-Ratelimit-Retry-After"), wait_s);
    assert_eq!(refused.number("X-Ratelimit-Limit"), 1);
    assert_eq!(refused.number("X-Ratelimit-Remaining"), 0);
    assert!(refused.number("X-Ratelimit-Reset") >= wait_s);
    assert_eq!(refused.field("RateLimit-Policy"), Some("\"tiny\";q=1;w=86400"));
    assert_eq!(refused.field("RateLimit"), Some(&*format!("\"tiny\";r=0;t={wait_s}")));
    assert_eq!(refused.field("X-Request-Id"), Some("id-7"));
    assert_eq!(refused.field("Content-Type"), Some("application/problem+json"));
    let problem = refused.json();
    let wait_ms = problem["retry-after-ms"].as_u64().unwrap();
    assert_eq!(wait_ms.div_ceil(1000), wait_s);
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"], json!(["tiny"]));
    assert_eq!(problem["request-id"], "id-7");
    let kind = problem["type"].as_str().unwrap();
    assert!(kind.ends_with("#quota-exceeded"), "{kind}");
}

#[test]
fn field_names_are_sent_in_lower_case() {
    let refused = refusal("", "", &[]);
    let names: Vec<&str> = refused.fields.iter().map(|(name, _)| &**name).collect();
    for name in ["x-ratelimit-limit", "x-ratelimit-retry-after", "retry-after", "content-type"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}

#[test]
fn a_client_that_accepts_only_text_gets_text() {
    let refused = refusal("", "", &["Accept: text/html"]);
    assert_eq!(refused.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert!(refused.text().starts_with("Quota Exceeded: "), "{}", refused.text());
    let configured = refusal("", "problem_json: false", &["Accept: application/json"]);
    assert_eq!(configured.field("Content-Type"), Some("text/plain; charset=utf-8"));
}

/// A person in front of a browser sees no JSON, and the browser asks for no icon: that would be
/// another request of the same client.
#[test]
fn a_browser_that_is_refused_gets_a_small_page() {
    let accept = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let refused = refusal("", "", &[accept]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(refused.number("Retry-After") >= 1);
    let policy = refused.field("Content-Security-Policy").expect("it has one");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = refused.text();
    for part in ["<h1>Quota Exceeded</h1>", "<p>Try again in ", "rel=\"icon\" href=\"data:,\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let configured = refusal("", "problem_json: false", &[accept]);
    assert_eq!(configured.field("Content-Type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn a_policy_may_configure_its_own_response() {
    let response = "response: { status: 503, content_type: application/json, \
                    body: '{\"policy\":\"{policy}\",\"wait\":{retry_after},\"of\":{limit}}' }";
    let refused = refusal(response, "", &[]);
    assert_eq!(refused.status, 503);
    assert_eq!(refused.field("Content-Type"), Some("application/json"));
    let wait_s = refused.number("Retry-After");
    assert_eq!(refused.json(), json!({ "policy": "tiny", "wait": wait_s, "of": 1 }));
}

#[test]
fn only_the_configured_dialects_are_sent() {
    let refused = refusal("", "headers: { dialects: [retry_after] }", &[]);
    assert!(refused.number("Retry-After") >= 1);
    let other = |(name, _): &&(String, String)| name.to_lowercase().contains("ratelimit");
    assert_eq!(refused.fields.iter().find(other), None);
}

#[test]
fn scripts_of_other_origins_may_read_the_fields() {
    let exposed = |top, fields: &[&str]| {
        let refused = refusal("", top, fields);
        refused.field("Access-Control-Expose-Headers").map(str::to_owned)
    };
    let names = exposed("", &["Origin: https://a.example"]).expect("a list of names");
    for name in ["X-Ratelimit-Remaining", "RateLimit", "Retry-After"] {
        assert!(names.split(", ").any(|known| known == name), "{name} is not among {names}");
    }
    assert_eq!(exposed("", &[]), None);
    assert_eq!(exposed("headers: { expose_cors: false }", &["Origin: https://a.example"]), None);
}

#[test]
fn limits_are_sent_also_when_the_upstream_fails() {
    let closed = Reserved::new();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         policies: {{ p: {{ key: ip, limit: 2/day }} }}\n\
         routes: [{{ path: \"/*\", policies: [p], upstream: app }}]\n",
        closed.address()
    ));
    let mut client = gateway.client();
    for remaining in [1, 0] {
        let response = client.get("/", &["Origin: https://a.example"]);
        assert_eq!(response.status, 502);
        assert_eq!(response.number("X-Ratelimit-Remaining"), remaining);
        assert!(response.field("RateLimit").is_some());
        assert!(response.field("Access-Control-Expose-Headers").is_some());
    }
    assert_eq!(client.get("/", &[]).status, 429);
}

#[test]
fn limits_that_the_origin_states_are_never_loosened() {
    let origin = Origin::answering(|request| {
        let remaining = request.line().split(' ').nth(1).unwrap_or_default().trim_matches('/');
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-RateLimit-Limit: 1000\r\n\
             X-RateLimit-Remaining: {remaining}\r\nRateLimit: \"theirs\";r=7;t=9\r\n\r\n"
        )
    });
    let gateway = Gateway::limiting(&origin, "key: ip, limit: 10/day");
    let mut client = gateway.client();
    let stricter = client.get("/3", &[]);
    assert_eq!(stricter.number("X-Ratelimit-Remaining"), 3);
    let looser = client.get("/900", &[]);
    assert_eq!(looser.number("X-Ratelimit-Remaining"), 8);
    assert_eq!(looser.number("X-Ratelimit-Limit"), 10);
    let lists = looser.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("ratelimit"));
    assert_eq!(lists.count(), 2, "theirs and ours: {looser:#?}");
}

/// Failures of the gateway, each with the part that failed.
#[test]
fn a_failure_names_the_part_that_failed_and_no_address() {
    let closed = Reserved::new();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: /here, upstream: app }}]\n",
        closed.address()
    ));
    let ask = |path: &str| Client::connect(gateway.address()).get(path, &["X-Request-Id: id-9"]);
    for (path, status, source) in
        [("/gone", 404, "gateway"), ("/here", 502, "upstream"), ("/%zz", 400, "client")]
    {
        let failed = ask(path);
        assert_eq!(failed.status, status, "{path}");
        let problem = failed.json();
        assert_eq!(problem["source"], source, "{path}");
        assert_eq!(problem["request-id"], "id-9");
        assert_eq!(failed.field("X-Request-Id"), Some("id-9"));
        assert!(!failed.text().contains("127.0.0.1"), "{}", failed.text());
    }
}
