//! `overflow` of a route: requests that some policies refuse are judged by a later route.

use crate::support::{Gateway, Origin, StoreKind, on_every_store};

on_every_store!(
    a_request_that_only_these_policies_refuse_goes_to_the_other_route,
    the_body_is_read_once_for_both_routes_and_forwarded_as_it_came,
    a_request_without_the_credential_of_its_route_does_not_overflow,
    a_request_that_a_policy_refuses_by_its_body_too_does_not_overflow,
);

/// Responds with its name, the target and the body of the request.
fn named(name: &'static str) -> Origin {
    Origin::answering(move |request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let text = format!("{name} {body}");
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
    })
}

fn gateway(store: StoreKind, origins: [&Origin; 2], policies: &str, routes: &str) -> Gateway {
    let [dear, cheap] = origins.map(|origin| format!("http://{}", origin.address()));
    store.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         runtime: {{ workers: 1 }}\n\
         policies:\n{policies}\
         routes:\n{routes}\
         upstreams: {{ dear: \"{dear}\", cheap: \"{cheap}\" }}\n"
    ))
}

fn a_request_that_only_these_policies_refuse_goes_to_the_other_route(store: StoreKind) {
    let origins = [named("dear"), named("cheap")];
    let gateway = gateway(
        store,
        [&origins[0], &origins[1]],
        "  team: { key: \"header:x-team\", limit: 2/day }\n  \
           all: { key: ip, limit: 5/day }\n  \
           spare: { key: \"header:x-team\", limit: 2/day }\n",
        "  - { path: /v1/*, policies: [team, all], upstream: dear, \
             overflow: { policies: [team], route: spare } }\n  \
           - { name: spare, path: /never, policies: [spare], upstream: cheap }\n",
    );
    let mut client = gateway.client();
    let mut get = |team: &str| {
        let response = client.get("/v1/chat", &[&format!("X-Team: {team}")]);
        let limit = response.field("RateLimit-Policy").unwrap_or_default().to_owned();
        (response.status, response.text().trim().to_owned(), limit.contains("spare"))
    };
    let dear = || (200, "dear".to_owned(), false);
    let cheap = || (200, "cheap".to_owned(), true);
    assert_eq!([0; 4].map(|_| get("a")), [dear(), dear(), cheap(), cheap()]);
    // The other route refuses in the end, by its own policy.
    let (status, _, is_spare) = get("a");
    assert_eq!((status, is_spare), (429, true));
    // What overflowed has consumed nothing of the policy for all: three of five are left.
    assert_eq!([0; 2].map(|_| get("b")), [dear(), dear()]);
    assert_eq!(get("c"), dear());
    // Now a policy refuses that does not overflow.
    let (status, _, is_spare) = get("d");
    assert_eq!((status, is_spare), (429, false));
    let (status, ..) = get("a");
    assert_eq!(status, 429, "both policies refuse");
    let lines = gateway.access_lines(10);
    assert_eq!(lines[2]["route"], "spare");
    assert_eq!(lines[2]["overflow"], "1");
    assert!(lines[0]["overflow"].is_null(), "{}", lines[0]);
    assert_eq!(lines[9]["route"], "1");
}

fn the_body_is_read_once_for_both_routes_and_forwarded_as_it_came(store: StoreKind) {
    let origins = [named("dear"), named("cheap")];
    for (first, second) in
        [("json:/user", "json:/model"), ("ip", "json:/model"), ("json:/user", "ip")]
    {
        let gateway = gateway(
            store,
            [&origins[0], &origins[1]],
            &format!(
                "  team: {{ key: \"{first}\", limit: 1/day }}\n  \
                   spare: {{ key: \"{second}\", limit: 1/day, missing_key: deny }}\n"
            ),
            "  - { path: /*, policies: [team], upstream: dear, \
                 overflow: { policies: [team], route: spare } }\n  \
               - { name: spare, path: /never, policies: [spare], upstream: cheap }\n",
        );
        let mut client = gateway.client();
        let body = r#"{"model": "m",  "user": "u"}"#;
        let told = [0; 3].map(|_| {
            let head = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            client.send(head.as_bytes());
            let response = client.response("POST");
            (response.status, response.text())
        });
        assert_eq!(told[0], (200, format!("dear {body}")), "{first} {second}");
        assert_eq!(told[1], (200, format!("cheap {body}")), "{first} {second}");
        assert_eq!(told[2].0, 429, "{first} {second}");
    }
}

/// Regression: a policy that counts 401 refused before the route did, and only its refusal was seen.
/// So the third request without a credential got the answer of the other route.
fn a_request_without_the_credential_of_its_route_does_not_overflow(store: StoreKind) {
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         client: { user: { jwt: { algorithms: [HS256], secret: \"at least thirty-two bytes of text\" } } }\n\
         policies:\n  \
           team: { key: ip, limit: 2/day, count: { status: [401] } }\n  \
           spare: { key: ip, limit: 9/day }\n\
         routes:\n  \
           - { path: /*, auth: [user], policies: [team], respond: { body: dear }, \
             overflow: { policies: [team], route: spare } }\n  \
           - { name: spare, path: /never, policies: [spare], respond: { body: cheap } }\n",
    );
    let mut client = gateway.client();
    assert_eq!([0; 4].map(|_| client.get("/", &[]).status), [401, 401, 429, 429]);
    // The credential is still asked for on each later request.
    let lines = gateway.access_lines(4);
    assert!(lines.iter().all(|line| line["route"] == "1" && line["overflow"].is_null()));
}

/// Regression: the policies that need no body refused before it was read, and the request overflowed
/// although a policy that needs the body refuses it, too.
fn a_request_that_a_policy_refuses_by_its_body_too_does_not_overflow(store: StoreKind) {
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         runtime: { workers: 1 }\n\
         policies:\n  \
           cap: { key: ip, limit: 2/day }\n  \
           each: { key: \"json:/user\", limit: 1/day, missing_key: deny }\n  \
           spare: { key: ip, limit: 9/day }\n\
         routes:\n  \
           - { path: /*, policies: [cap, each], respond: { body: dear }, \
             overflow: { policies: [cap], route: spare } }\n  \
           - { name: spare, path: /never, policies: [spare], respond: { body: cheap } }\n",
    );
    let mut client = gateway.client();
    let mut post = |body: &str| {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json";
        client.send(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let response = client.response("POST");
        (response.status, response.text().trim().to_owned())
    };
    assert_eq!(post(r#"{"user": "a"}"#), (200, "dear".to_owned()));
    assert_eq!(post(r#"{"user": "a"}"#).0, 429);
    assert_eq!(post(r#"{"user": "b"}"#), (200, "dear".to_owned()));
    // Now `cap` refuses all of them.
    for _ in 0..2 {
        assert_eq!(post(r#"{"user": "c"}"#), (200, "cheap".to_owned()));
        assert_eq!(post(r#"{"user": "a"}"#).0, 429, "the limit of this user is used up");
        assert_eq!(post("{}").0, 403, "a request without a user is denied");
    }
}
