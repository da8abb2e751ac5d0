//! Limits as clients meet them: how many requests pass, and when the next one does.

use std::thread;
use std::time::Duration;

use crate::support::{Gateway, Origin, Place, on_every_store};

on_every_store!(
    remaining_falls_to_nothing_and_then_requests_are_refused,
    whoever_waits_as_long_as_they_are_told_passes,
    what_one_policy_refuses_costs_nothing_in_the_others,
    all_policies_that_refuse_are_named_and_the_longest_wait_counts,
    a_limit_is_exact_however_many_ask_at_once,
    default_policies_judge_every_route_that_does_not_decline,
    a_bucket_gives_its_burst_at_once_and_no_more,
);

/// Two policies that all requests of one `X-Who` have in common with others,
/// and for themselves.
fn with_two_policies(place: Place, origin: &Origin) -> Gateway {
    place.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         policies:\n  \
           all: {{ key: global, limit: 5/day }}\n  \
           each: {{ key: \"header:x-who\", limit: 2/day }}\n\
         routes: [{{ path: \"/*\", policies: [all, each], upstream: app }}]\n",
        origin.address()
    ))
}

fn remaining_falls_to_nothing_and_then_requests_are_refused(place: Place) {
    let origin = Origin::hello();
    let gateway = place.limiting(&origin, "key: ip, limit: 3/day");
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

fn whoever_waits_as_long_as_they_are_told_passes(place: Place) {
    let origin = Origin::hello();
    for algorithm in [
        "sliding_window",
        "sliding_window, buckets: 10",
        "sliding_log",
        "fixed_window",
        "token_bucket",
    ] {
        let policy = format!("key: ip, limit: 5/s, algorithm: {algorithm}");
        let gateway = place.limiting(&origin, &policy);
        let mut client = gateway.client();
        let refused = (0..10_000).map(|_| client.get("/", &[])).find(|got| got.status == 429);
        let refused = refused.expect("nobody is as slow as the limit");
        let wait_ms = refused.json()["retry-after-ms"].as_u64().expect("a number");
        thread::sleep(Duration::from_millis(wait_ms));
        assert_eq!(client.get("/", &[]).status, 200, "{algorithm} after {wait_ms} ms");
    }
}

fn what_one_policy_refuses_costs_nothing_in_the_others(place: Place) {
    let origin = Origin::hello();
    let gateway = with_two_policies(place, &origin);
    let mut client = gateway.client();
    let mut statuses = |who: &str| [0; 4].map(|_| client.get("/", &[who]).status);
    assert_eq!(statuses("X-Who: ann"), [200, 200, 429, 429]);
    assert_eq!(statuses("X-Who: bob"), [200, 200, 429, 429]);
    assert_eq!(statuses("X-Who: eve"), [200, 429, 429, 429]);
    assert_eq!(origin.received().len(), 5);
}

fn all_policies_that_refuse_are_named_and_the_longest_wait_counts(place: Place) {
    let origin = Origin::hello();
    let gateway = with_two_policies(place, &origin);
    let mut client = gateway.client();
    for who in ["X-Who: ann", "X-Who: ann", "X-Who: bob", "X-Who: bob", "X-Who: eve"] {
        assert_eq!(client.get("/", &[who]).status, 200);
    }
    let refused = client.get("/", &["X-Who: ann"]);
    let problem = refused.json();
    let mut names: Vec<_> =
        problem["violated-policies"].as_array().expect("a list").iter().collect();
    names.sort_by_key(|name| name.as_str());
    assert_eq!(names, ["all", "each"]);
    let waits = client.get("/", &["X-Who: new"]).number("Retry-After");
    assert!(refused.number("Retry-After") >= waits, "{waits} s are too short for {refused:#?}");
}

fn a_limit_is_exact_however_many_ask_at_once(place: Place) {
    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 50;
    let gateway = place.start(
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
fn a_request_without_a_policy_is_told_of_no_limit() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let response = gateway.client().get("/", &[]);
    let told = response.fields.iter().find(|(name, _)| name.to_lowercase().contains("ratelimit"));
    assert_eq!((response.status, told), (200, None));
}

fn default_policies_judge_every_route_that_does_not_decline(place: Place) {
    let gateway = place.start(
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

fn a_bucket_gives_its_burst_at_once_and_no_more(place: Place) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 10/day, algorithm: token_bucket, burst: 4";
    let gateway = place.limiting(&origin, policy);
    let mut client = gateway.client();
    let statuses = [0; 6].map(|_| client.get("/", &[]).status);
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
}
