//! `overflow` of a route: requests that some policies refuse are judged by a later route.

use crate::support::{Gateway, Origin, StoreKind, on_every_store};

on_every_store!(
    a_request_that_only_these_policies_refuse_goes_to_the_other_route,
    the_body_is_read_once_for_both_routes_and_forwarded_as_it_came,
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
