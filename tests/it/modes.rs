//! What a policy does beside refusing: marking, watching, banning, stretching.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::{Gateway, Origin, Place, Response, eventually, on_every_store};

on_every_store!(
    what_a_soft_limit_admits_beyond_itself_is_marked_on_both_sides,
    a_policy_in_shadow_says_in_the_log_alone_whom_it_would_refuse,
    a_policy_in_shadow_says_in_the_log_alone_who_lacks_its_key,
    a_policy_that_is_off_does_nothing,
    the_plan_that_a_trusted_proxy_names_sets_the_limit,
    who_comes_around_the_trusted_proxies_cannot_choose_a_plan,
    who_is_refused_too_often_is_banned_and_told_for_how_long,
    each_ban_is_twice_as_long_as_the_one_before,
    an_elastic_limit_gives_way_while_the_upstream_is_quick_and_only_then,
);

const TRUSTING: &str = "client: { trusted_proxies: [127.0.0.0/8] }";

/// Whether the client is told anything of a limit.
fn is_told(response: &Response) -> bool {
    response.fields.iter().any(|(name, _)| name.to_lowercase().contains("ratelimit"))
}

fn what_a_soft_limit_admits_beyond_itself_is_marked_on_both_sides(place: Place) {
    let origin = Origin::hello();
    let gateway = place.limiting(&origin, "key: ip, limit: 2/day, soft: 50%");
    let mut client = gateway.client();
    let got = [0; 4].map(|_| {
        // A client cannot say it of itself.
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

fn a_policy_in_shadow_says_in_the_log_alone_whom_it_would_refuse(place: Place) {
    let origin = Origin::hello();
    let gateway = place.limiting(&origin, "key: ip, limit: 1/day, mode: shadow");
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/", &[]);
        assert_eq!((response.status, is_told(&response)), (200, false));
    }
    let lines = gateway.access_lines(3);
    let refused_by: Vec<_> = lines.iter().map(|line| line["shadow_refused_by"].as_str()).collect();
    assert_eq!(refused_by, [None, Some("per-client"), Some("per-client")]);
}

fn a_policy_in_shadow_says_in_the_log_alone_who_lacks_its_key(place: Place) {
    let origin = Origin::hello();
    let policy = "key: \"header:x-who\", limit: 9/day, missing_key: deny, mode: shadow";
    let gateway = place.limiting(&origin, policy);
    let mut client = gateway.client();
    for field in ["X-Who: ann", "X-Other: ann"] {
        let response = client.get("/", &[field]);
        assert_eq!((response.status, is_told(&response)), (200, false));
    }
    let lines = gateway.access_lines(2);
    let refused_by: Vec<_> = lines.iter().map(|line| line["shadow_refused_by"].as_str()).collect();
    assert_eq!(refused_by, [None, Some("per-client")]);
}

fn a_policy_that_is_off_does_nothing(place: Place) {
    let origin = Origin::hello();
    let gateway = place.limiting(&origin, "key: ip, limit: 1/day, mode: off");
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/", &[]);
        assert_eq!((response.status, is_told(&response)), (200, false));
    }
    let line = &gateway.access_lines(1)[0];
    assert_eq!(line.get("shadow_refused_by"), None);
}

fn the_plan_that_a_trusted_proxy_names_sets_the_limit(place: Place) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/day, \
                  plans: { from: \"header:x-plan\", limits: { gold: 3/day, staff: unlimited } }";
    let gateway = place.limiting_with(&origin, policy, TRUSTING);
    let mut client = gateway.client();
    let mut status = |plan: &str| client.get("/", &[plan]).status;
    assert_eq!([0; 5].map(|_| status("X-Plan: staff")), [200; 5]);
    // The plans share their counter: what one used, another does not give back.
    let plans = ["unknown", "unknown", "gold", "gold", "gold", "staff", "unknown"];
    let got = plans.map(|plan| status(&format!("X-Plan: {plan}")));
    assert_eq!(got, [200, 429, 200, 200, 429, 200, 429]);
}

fn who_comes_around_the_trusted_proxies_cannot_choose_a_plan(place: Place) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/day, \
                  plans: { from: \"header:x-plan\", limits: { staff: unlimited } }";
    let top = "client: { trusted_proxies: [192.0.2.0/24] }";
    let gateway = place.limiting_with(&origin, policy, top);
    let mut client = gateway.client();
    assert_eq!([0; 2].map(|_| client.get("/", &["X-Plan: staff"]).status), [200, 429]);
}

fn who_is_refused_too_often_is_banned_and_told_for_how_long(place: Place) {
    let origin = Origin::hello();
    let policy = "key: \"header:x-who\", limit: 1/minute, penalty: { after: 3/minute, ban: 6h }";
    let gateway = place.limiting(&origin, policy);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &["X-Who: ann"]).status, 200);
    let waits = [0; 4].map(|_| client.get("/", &["X-Who: ann"]).number("Retry-After"));
    assert!(waits[..2].iter().all(|wait| *wait <= 120), "{waits:?} s");
    assert!(waits[2..].iter().all(|wait| (21_590..=21_600).contains(wait)), "{waits:?} s");
    assert_eq!(client.get("/", &["X-Who: bob"]).status, 200, "others are not banned");
    assert_eq!(gateway.access_lines(6)[4]["outcome"], "banned");
}

fn each_ban_is_twice_as_long_as_the_one_before(place: Place) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/s, algorithm: fixed_window, \
                  penalty: { after: 1/s, ban: 1s, max_ban: 3s }";
    let gateway = place.limiting(&origin, policy);
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
fn an_elastic_limit_gives_way_while_few_requests_are_in_flight() {
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

fn an_elastic_limit_gives_way_while_the_upstream_is_quick_and_only_then(place: Place) {
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
        let gateway = place.limiting(&origin, &policy);
        let mut client = gateway.client();
        let responses = [0; 4].map(|_| client.get("/", &[]));
        assert_eq!(responses.each_ref().map(|response| response.status), expected, "{latency}");
        // What is promised is the limit, whatever is admitted beyond it.
        assert!(responses.iter().all(|response| response.number("X-Ratelimit-Limit") == 1));
    }
}
