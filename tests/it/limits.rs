//! Limits from a client's point of view: the number of admitted requests, and the time
//! until the next one.

use std::thread;
use std::time::Duration;

use crate::support::{Gateway, Origin, StoreKind, on_every_store};

on_every_store!(
    remaining_falls_to_zero_and_then_requests_are_refused,
    a_client_that_waits_as_told_is_admitted,
    a_request_that_one_policy_refuses_consumes_nothing_of_others,
    all_refusing_policies_are_named_and_the_longest_wait_counts,
    a_limit_is_exact_under_concurrent_requests,
    default_policies_judge_every_route_that_does_not_replace_them,
    a_bucket_gives_its_burst_at_once_and_no_more,
);

/// Two policies. One counts all requests together, and the other counts by `X-Client`.
fn with_two_policies(store: StoreKind, origin: &Origin) -> Gateway {
    store.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         policies:\n  \
           all: {{ key: global, limit: 5/day }}\n  \
           each: {{ key: \"header:x-client\", limit: 2/day }}\n\
         routes: [{{ path: \"/*\", policies: [all, each], upstream: app }}]\n",
        origin.address()
    ))
}

fn remaining_falls_to_zero_and_then_requests_are_refused(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 3/day");
    let mut client = gateway.client();
    for remaining in [2, 1, 0] {
        let response = client.get("/", &[]);
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.number("X-Ratelimit-Limit"), 3);
        assert_eq!(response.number("X-Ratelimit-Remaining"), remaining);
        assert_eq!(response.field("Retry-After"), None);
        assert_eq!(response.field("X-Ratelimit-Retry-After"), None);
    }
    for _ in 0..2 {
        let response = client.get("/", &[]);
        assert_eq!(response.status, 429);
        assert_eq!(response.number("X-Ratelimit-Remaining"), 0);
    }
    assert_eq!(origin.received().len(), 3, "what is refused does not reach the origin");
}

fn a_client_that_waits_as_told_is_admitted(store: StoreKind) {
    let origin = Origin::hello();
    for algorithm in [
        "sliding_window",
        "sliding_window, buckets: 10",
        "sliding_log",
        "fixed_window",
        "token_bucket",
    ] {
        let policy = format!("key: ip, limit: 5/s, algorithm: {algorithm}");
        let gateway = store.limiting(&origin, &policy);
        let mut client = gateway.client();
        let refused = (0..10_000).map(|_| client.get("/", &[])).find(|got| got.status == 429);
        let refused = refused.expect("the client exceeds the limit");
        let wait_ms = refused.json()["retry-after-ms"].as_u64().expect("a number");
        thread::sleep(Duration::from_millis(wait_ms));
        assert_eq!(client.get("/", &[]).status, 200, "{algorithm} after {wait_ms} ms");
    }
}

fn a_request_that_one_policy_refuses_consumes_nothing_of_others(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = with_two_policies(store, &origin);
    let mut client = gateway.client();
    let mut statuses = |field: &str| [0; 4].map(|_| client.get("/", &[field]).status);
    assert_eq!(statuses("X-Client: ann"), [200, 200, 429, 429]);
    assert_eq!(statuses("X-Client: bob"), [200, 200, 429, 429]);
    assert_eq!(statuses("X-Client: eve"), [200, 429, 429, 429]);
    assert_eq!(origin.received().len(), 5);
}

fn all_refusing_policies_are_named_and_the_longest_wait_counts(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = with_two_policies(store, &origin);
    let mut client = gateway.client();
    for field in
        ["X-Client: ann", "X-Client: ann", "X-Client: bob", "X-Client: bob", "X-Client: eve"]
    {
        assert_eq!(client.get("/", &[field]).status, 200);
    }
    let refused = client.get("/", &["X-Client: ann"]);
    let problem = refused.json();
    let mut names: Vec<_> =
        problem["violated-policies"].as_array().expect("a list").iter().collect();
    names.sort_by_key(|name| name.as_str());
    assert_eq!(names, ["all", "each"]);
    let waits = client.get("/", &["X-Client: new"]).number("Retry-After");
    assert!(refused.number("Retry-After") >= waits, "{waits} s are too short for {refused:#?}");
}

fn a_limit_is_exact_under_concurrent_requests(store: StoreKind) {
    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 50;
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { p: { key: ip, limit: 60/hour } }\n\
         routes: [{ path: \"/*\", policies: [p], respond: { body: ok } }]\n\
         runtime: { workers: 2 }\n",
    );
    let admitted: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = gateway.client();
                    (0..REQUESTS).filter(|_| client.get("/", &[]).status == 200).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no client fails")).sum()
    });
    assert_eq!(admitted, 60);
}

#[test]
fn a_response_without_a_policy_names_no_limit() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let response = gateway.client().get("/", &[]);
    let told = response.fields.iter().find(|(name, _)| name.to_lowercase().contains("ratelimit"));
    assert_eq!((response.status, told), (200, None));
}

fn default_policies_judge_every_route_that_does_not_replace_them(store: StoreKind) {
    let gateway = store.start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { p: { key: ip, limit: 1/day } }\n\
         defaults: { policies: [p] }\n\
         routes:\n\
         - { path: /free, respond: { body: free }, defaults: false }\n\
         - { path: \"/*\", respond: { body: counted } }\n",
    );
    let mut client = gateway.client();
    let statuses = ["/a", "/b", "/free", "/free"].map(|path| client.get(path, &[]).status);
    assert_eq!(statuses, [200, 429, 200, 200]);
}

fn a_bucket_gives_its_burst_at_once_and_no_more(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 10/day, algorithm: token_bucket, burst: 4";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    let statuses = [0; 6].map(|_| client.get("/", &[]).status);
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
}
