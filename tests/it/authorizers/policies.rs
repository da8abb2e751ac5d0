//! Policies before and behind an authorizer.

use std::thread;
use std::time::Duration;

use super::portal::Portal;
use super::{ANN, gateway, get, outcomes};
use crate::support::{Origin, eventually, now};

#[test]
fn a_request_that_the_authorizer_refuses_stays_charged() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let top = "policies: { two: { key: ip, limit: 2/day }, \
               at_once: { key: ip, algorithm: concurrency, limit: 1 } }";
    let gateway = gateway(&portal.url(), &origin, "", "policies: [two, at_once]", top);
    for remaining in [1, 0] {
        let refused = get(&gateway, "/", &[]);
        assert_eq!(refused.status, 401, "units in flight are given back");
        assert!(
            refused.field("ratelimit").is_some_and(|it| it.contains(&format!("r={remaining}")))
        );
    }
    let asked = portal.asked();
    assert_eq!(get(&gateway, "/", &[ANN]).status, 429);
    assert_eq!(portal.asked(), asked, "the limit is decided before the question");
    assert_eq!(outcomes(&gateway, 3), ["authorizer_denied", "authorizer_denied", "refused"]);
}

#[test]
fn a_policy_counts_by_what_the_authorizer_says() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let top = "policies:\n  \
                 by-ip: { key: ip, limit: 4/day }\n  \
                 by-user: { key: \"authorizer:remote-user\", limit: 1/day, missing_key: deny }";
    let route = "policies: [by-ip, by-user]";
    let gateway = gateway(&portal.url(), &origin, "", route, top);
    let ask = |user: &str| {
        let cookie = format!("Cookie: session={user}");
        // A client cannot choose by whom it counts.
        get(&gateway, "/", &[&cookie, "Remote-User: someone"])
    };
    assert_eq!(ask("ann").status, 200);
    for _ in 0..6 {
        let refused = ask("ann");
        assert_eq!(refused.status, 429);
        assert_eq!(refused.json()["violated-policies"], serde_json::json!(["by-user"]));
    }
    // The refused requests have used nothing of the other policy.
    for user in ["bob", "cid", "dan"] {
        assert_eq!(ask(user).status, 200, "{user}");
    }
    let refused = ask("eve");
    assert_eq!(refused.json()["violated-policies"], serde_json::json!(["by-ip"]));
    assert_eq!(get(&gateway, "/public", &[]).status, 429);
    assert_eq!(origin.received().len(), 4);
    let lines = gateway.access_lines(12);
    for (line, outcome, policy) in [
        (&lines[0], "admitted", "by-user"),
        (&lines[1], "refused", "by-user"),
        (&lines[10], "refused", "by-ip"),
    ] {
        assert_eq!(
            (&line["outcome"], &line["policy"]),
            (&outcome.into(), &policy.into()),
            "{line}"
        );
    }
}

/// Regression: a request counted when it had arrived, however long the authorizer took.
#[test]
fn a_request_counts_when_the_authorizer_has_answered() {
    let portal = Portal::answering(|request, usual| {
        if request.fields("x-forwarded-uri") == ["/slow"] {
            thread::sleep(Duration::from_secs(3));
        }
        usual
    });
    let origin = Origin::hello();
    let top = "policies: { by-user: { key: \"authorizer:remote-user\", limit: 1/minute, \
               algorithm: sliding_log } }";
    let gateway = gateway(&portal.url(), &origin, "timeout: 20s", "policies: [by-user]", top);
    assert_eq!(get(&gateway, "/", &[ANN]).status, 200);
    let refused = get(&gateway, "/slow", &[ANN]);
    assert_eq!(refused.status, 429);
    assert!(refused.number("Retry-After") <= 57, "{refused:?}");
}

#[test]
fn the_responses_to_a_banned_user_are_held_back() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let top = "policies: { by-user: { key: \"authorizer:remote-user\", limit: 1/day, \
               penalty: { after: 1/day, ban: 6h, delay: 300ms } } }";
    let gateway = gateway(&portal.url(), &origin, "", "policies: [by-user]", top);
    assert_eq!(get(&gateway, "/", &[ANN]).status, 200);
    for _ in 0..2 {
        let begun = now();
        assert_eq!(get(&gateway, "/", &[ANN]).status, 429);
        assert!(begun.elapsed() >= Duration::from_millis(300));
    }
    assert_eq!(outcomes(&gateway, 3), ["admitted", "banned", "banned"]);
}

#[test]
fn an_answer_without_the_field_is_a_request_without_the_key() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let top = "policies: { by-user: { key: \"authorizer:remote-user\", limit: 1/day, \
               missing_key: deny } }";
    let gateway = gateway(&portal.url(), &origin, "", "policies: [by-user]", top);
    assert_eq!(get(&gateway, "/public", &["Remote-User: ann"]).status, 403);
    assert_eq!(outcomes(&gateway, 1), ["key_missing"]);
}

#[test]
fn units_in_flight_end_with_the_response() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let top = "policies:\n  \
                 one: { key: ip, algorithm: concurrency, limit: 1 }\n  \
                 each: { key: \"authorizer:remote-user\", algorithm: concurrency, limit: 1 }";
    let gateway = gateway(&portal.url(), &origin, "", "policies: [one, each]", top);
    let mut client = gateway.client();
    for _ in 0..5 {
        assert_eq!(client.get("/", &[ANN]).status, 200);
    }
}

#[test]
fn a_request_whose_time_ends_during_its_delay_uses_none_of_its_limits() {
    let portal = Portal::start();
    let origin = Origin::hello();
    for key in ["ip", "authorizer:remote-user"] {
        let top = format!(
            "policies:\n  \
               queue: {{ key: {key:?}, limit: 1/3s, algorithm: leaky_bucket, max_delay: 1m }}\n  \
               by-ip: {{ key: ip, limit: 2/day, algorithm: fixed_window }}\n  \
               by-user: {{ key: \"authorizer:remote-user\", limit: 2/day, algorithm: fixed_window }}"
        );
        let route = "policies: [queue, by-ip, by-user], timeouts: { request: 500ms }";
        let gateway = gateway(&portal.url(), &origin, "", route, &top);
        let ask = || get(&gateway, "/", &[ANN]).status;
        assert_eq!(ask(), 200);
        let mut late = 0;
        eventually("the queue is empty", || {
            let status = ask();
            late += usize::from(status == 504);
            assert!([200, 504].contains(&status), "{status} after {late} requests were late");
            status == 200
        });
        assert!(late > 0, "{key}");
        assert_eq!(ask(), 429, "two were admitted");
    }
}
