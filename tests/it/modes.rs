//! Effects of a policy other than refusals: marks, shadow mode, bans, and elastic limits.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::frames::{Frames, HEADERS, head};
use crate::support::{
    Client, Gateway, Origin, Response, StoreKind, eventually, now, on_every_store,
};

on_every_store!(
    a_request_within_the_soft_limit_is_marked_on_both_sides,
    a_policy_in_shadow_logs_the_requests_that_it_would_refuse,
    a_policy_in_shadow_logs_the_requests_that_lack_its_key,
    a_policy_that_is_off_does_nothing,
    the_plan_that_a_trusted_proxy_names_sets_the_limit,
    a_client_that_bypasses_the_trusted_proxies_cannot_choose_a_plan,
    a_client_that_is_refused_too_often_is_banned_and_the_response_names_the_length,
    the_responses_to_a_banned_client_are_held_back,
    each_ban_is_twice_as_long_as_the_one_before,
    an_elastic_limit_admits_more_only_while_the_upstream_is_fast,
);

const TRUSTING: &str = "client: { trusted_proxies: [127.0.0.0/8] }";

/// Whether the response has a field about a limit.
fn is_told(response: &Response) -> bool {
    response.fields.iter().any(|(name, _)| name.to_lowercase().contains("ratelimit"))
}

fn a_request_within_the_soft_limit_is_marked_on_both_sides(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 2/day, soft: 50%");
    let mut client = gateway.client();
    let got = [0; 4].map(|_| {
        // The gateway removes the mark if a client sends it.
        let response = client.get("/", &["X-RateLimit-Soft: over"]);
        (response.status, response.field("X-RateLimit-Soft") == Some("over"))
    });
    assert_eq!(got, [(200, false), (200, false), (200, true), (429, false)]);
    let received = origin.received();
    let marks: Vec<_> = received.iter().map(|request| request.fields("x-ratelimit-soft")).collect();
    assert_eq!(marks, [vec![], vec![], vec!["over"]]);
    let lines = gateway.access_lines(4);
    let outcomes: Vec<_> =
        lines.iter().map(|line| line["outcome"].as_str().expect("text")).collect();
    assert_eq!(outcomes, ["admitted", "admitted", "soft", "refused"]);
}

fn a_policy_in_shadow_logs_the_requests_that_it_would_refuse(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 1/day, mode: shadow");
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/", &[]);
        assert_eq!((response.status, is_told(&response)), (200, false));
    }
    let lines = gateway.access_lines(3);
    let refused_by: Vec<_> = lines.iter().map(|line| line["shadow_refused_by"].as_str()).collect();
    assert_eq!(refused_by, [None, Some("per-client"), Some("per-client")]);
}

fn a_policy_in_shadow_logs_the_requests_that_lack_its_key(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: \"header:x-client\", limit: 9/day, missing_key: deny, mode: shadow";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    for field in ["X-Client: ann", "X-Other: ann"] {
        let response = client.get("/", &[field]);
        assert_eq!((response.status, is_told(&response)), (200, false));
    }
    let lines = gateway.access_lines(2);
    let refused_by: Vec<_> = lines.iter().map(|line| line["shadow_refused_by"].as_str()).collect();
    assert_eq!(refused_by, [None, Some("per-client")]);
}

fn a_policy_that_is_off_does_nothing(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 1/day, mode: off");
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/", &[]);
        assert_eq!((response.status, is_told(&response)), (200, false));
    }
    let line = &gateway.access_lines(1)[0];
    assert_eq!(line.get("shadow_refused_by"), None);
}

fn the_plan_that_a_trusted_proxy_names_sets_the_limit(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/day, \
                  plans: { from: \"header:x-plan\", limits: { gold: 3/day, staff: unlimited } }";
    let gateway = store.limiting_with(&origin, policy, TRUSTING);
    let mut client = gateway.client();
    let mut status = |plan: &str| client.get("/", &[plan]).status;
    assert_eq!([0; 5].map(|_| status("X-Plan: staff")), [200; 5]);
    // The plans share their counter: units that were used under one plan stay used under
    // another.
    let plans = ["unknown", "unknown", "gold", "gold", "gold", "staff", "unknown"];
    let got = plans.map(|plan| status(&format!("X-Plan: {plan}")));
    assert_eq!(got, [200, 429, 200, 200, 429, 200, 429]);
}

fn a_client_that_bypasses_the_trusted_proxies_cannot_choose_a_plan(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/day, \
                  plans: { from: \"header:x-plan\", limits: { staff: unlimited } }";
    let top = "client: { trusted_proxies: [192.0.2.0/24] }";
    let gateway = store.limiting_with(&origin, policy, top);
    let mut client = gateway.client();
    assert_eq!([0; 2].map(|_| client.get("/", &["X-Plan: staff"]).status), [200, 429]);
}

fn a_client_that_is_refused_too_often_is_banned_and_the_response_names_the_length(
    store: StoreKind,
) {
    let origin = Origin::hello();
    let policy = "key: \"header:x-client\", limit: 1/minute, penalty: { after: 3/minute, ban: 6h }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &["X-Client: ann"]).status, 200);
    let waits = [0; 4].map(|_| client.get("/", &["X-Client: ann"]).number("Retry-After"));
    assert!(waits[..2].iter().all(|wait| *wait <= 120), "{waits:?} s");
    assert!(waits[2..].iter().all(|wait| (21_590..=21_600).contains(wait)), "{waits:?} s");
    assert_eq!(client.get("/", &["X-Client: bob"]).status, 200, "others are not banned");
    assert_eq!(gateway.access_lines(6)[4]["outcome"], "banned");
}

fn the_responses_to_a_banned_client_are_held_back(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: \"header:x-client\", limit: 1/hour, \
                  penalty: { after: 2/hour, ban: 6h, delay: 300ms }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    let mut ask = || {
        let begun = now();
        let status = client.get("/", &["X-Client: ann"]).status;
        (status, begun.elapsed() >= Duration::from_millis(300))
    };
    assert_eq!(ask().0, 200);
    assert_eq!(ask().0, 429);
    assert_eq!([ask(), ask()], [(429, true); 2], "the second refusal bans the client");
    let outcomes: Vec<_> = gateway.access_lines(4).iter().map(|it| it["outcome"].clone()).collect();
    assert_eq!(outcomes, ["admitted", "refused", "banned", "banned"]);
}

#[test]
fn other_clients_do_not_wait_for_a_banned_client_whose_response_is_held_back() {
    let origin = Origin::hello();
    let policy = "key: \"header:x-client\", limit: 1/hour, \
                  penalty: { after: 1/hour, ban: 6h, delay: 30s }";
    let gateway = StoreKind::Memory.limiting(&origin, policy);
    assert_eq!(gateway.client().get("/", &["X-Client: ann"]).status, 200);
    let mut banned: Vec<_> = (0..20).map(|_| gateway.client()).collect();
    for client in &mut banned {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Client: ann\r\n\r\n");
    }
    let mut other = gateway.client();
    for number in 0..20 {
        let begun = now();
        assert_eq!(other.get("/", &[&format!("X-Client: {number}")]).status, 200);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    // A client that leaves is not waited for.
    drop(banned);
    let lines = gateway.access_lines(41);
    let of = |outcome: &str| lines.iter().filter(|line| line["outcome"] == outcome).count();
    assert_eq!((of("admitted"), of("client_closed")), (21, 20));
}

#[test]
fn over_http_2_only_the_streams_of_the_banned_client_wait() {
    let origin = Origin::hello();
    let policy = "key: \"header:x-client\", limit: 1/hour, \
                  penalty: { after: 1/hour, ban: 6h, delay: 2s }";
    let gateway = StoreKind::Memory.limiting(&origin, policy);
    assert_eq!(gateway.client().get("/", &["X-Client: ann"]).status, 200);
    let mut connection = Frames::connect(gateway.address());
    let request = |stream, client| {
        let target = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
        head(stream, &[&target[..], &[("x-client", client)]].concat(), true)
    };
    let begun = now();
    connection.send(&[(1, "ann"), (3, "ann"), (5, "bob")].map(|(id, it)| request(id, it)).concat());
    let mut next = || loop {
        let frame = connection.next().expect("it answers in time").expect("the connection stays");
        if frame.kind == HEADERS {
            return (frame.stream, frame.status());
        }
    };
    assert_eq!(next(), (5, 200));
    let mut held = [next(), next()];
    held.sort_unstable();
    assert_eq!(held, [(1, 429), (3, 429)]);
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_proxy_that_asks_about_a_banned_client_is_answered_at_once() {
    let origin = Origin::hello();
    let policy = "key: \"header:x-client\", limit: 1/hour, \
                  penalty: { after: 1/hour, ban: 6h, delay: 30s }";
    let door = "check: { http: { address: \"127.0.0.1:0\" } }";
    let gateway = StoreKind::Memory.limiting_with(&origin, policy, door);
    let mut proxy = Client::connect(gateway.addresses()[1]);
    let begun = now();
    let statuses = [0; 3].map(|_| {
        let described = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Forwarded-Host: a"];
        proxy.get("/auth", &[&described[..], &["X-Client: ann"]].concat()).status
    });
    assert_eq!(statuses, [200, 429, 429]);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

fn each_ban_is_twice_as_long_as_the_one_before(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/s, algorithm: fixed_window, \
                  penalty: { after: 1/s, ban: 1s, max_ban: 3s }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    let mut refused = || {
        let mut responses = std::iter::repeat_with(|| client.get("/", &[]));
        responses.find(|response| response.status == 429).expect("it is endless")
    };
    let bans = [0; 3].map(|_| {
        let wait_ms = refused().json()["retry-after-ms"].as_u64().expect("a ban ends");
        thread::sleep(Duration::from_millis(wait_ms));
        wait_ms.div_ceil(1000)
    });
    assert_eq!(bans, [1, 2, 3], "s: doubled, but never longer than the longest");
}

#[test]
fn an_elastic_limit_admits_more_while_few_requests_are_in_flight() {
    let origin = Origin::serving(|stream, read| {
        while let Some(request) = read() {
            let stuck = request.line().contains("/stuck");
            let body = if stuck { "hel" } else { "hello" };
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5";
            let _ = write!(stream, "{head}\r\n\r\n{body}");
        }
    });
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"], max_in_flight: 2 }} }}\n\
         policies:\n  per-client: {{ key: ip, limit: 1/day, \
         elastic: {{ limit: 9/day, when: {{ upstream_in_flight_below: 50% }} }} }}\n\
         routes: [{{ path: \"/*\", policies: [per-client], upstream: app }}]\n",
        origin.address()
    ));
    let mut client = gateway.client();
    assert_eq!([0; 2].map(|_| client.get("/", &[]).status), [200, 200]);
    let mut stuck = gateway.client();
    stuck.send(b"GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stuck.head().status, 200);
    assert_eq!(client.get("/", &[]).status, 429, "half of what there may be is in flight");
    drop(stuck);
    eventually("there is room again", || client.get("/", &[]).status == 200);
}

fn an_elastic_limit_admits_more_only_while_the_upstream_is_fast(store: StoreKind) {
    for (delay_ms, latency, expected) in
        [(0, "10s", [200, 200, 200, 429]), (20, "2ms", [200, 429, 429, 429])]
    {
        let origin = Origin::answering(move |_| {
            thread::sleep(Duration::from_millis(delay_ms));
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned()
        });
        let policy = format!(
            "key: ip, limit: 1/day, \
             elastic: {{ limit: 3/day, when: {{ upstream_latency_below: {latency} }} }}"
        );
        let gateway = store.limiting(&origin, &policy);
        let mut client = gateway.client();
        let responses = [0; 4].map(|_| client.get("/", &[]));
        assert_eq!(responses.each_ref().map(|response| response.status), expected, "{latency}");
        // The fields state the limit itself, whatever is admitted beyond it.
        assert!(responses.iter().all(|response| response.number("X-Ratelimit-Limit") == 1));
    }
}
