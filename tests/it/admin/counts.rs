//! What metrics count of policies that were not asked, and over reloads.

use crate::api_keys::{Keys, field};
use crate::support::{Gateway, eventually};

use super::{AdminClient, METRICS, section};

fn metrics(gateway: &Gateway) -> String {
    AdminClient::new(gateway, METRICS).get("/metrics").text()
}

/// The value of a series, whose labels are given in the order of their names.
fn value(metrics: &str, series: &str) -> Option<u64> {
    let lines = || metrics.lines();
    lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// A policy that was not asked, because another one had refused the request before, counted as one
/// that exempts the request.
#[test]
fn a_policy_that_was_not_asked_is_not_exempt() {
    let keys = Keys::new();
    let key = field(&keys.create(&[]));
    let rest = "policies:\n  \
          per: { key: ip, limit: 2/day }\n  \
          body: { key: \"json:/user\", limit: 100/day }\n  \
          logins: { key: ip, limit: 2/day, count: { status: [401] } }\n  \
          other: { key: ip, limit: 100/day, exempt: { methods: [PUT] } }\n\
        routes:\n\
        - { path: /body, policies: [per, body], respond: { body: ok } }\n\
        - { path: /key, auth: [api_key], policies: [logins, other], respond: { body: ok } }\n";
    let gateway = keys.start("", &format!("{rest}{}", section("")));
    let mut client = gateway.client();
    let json = ["Content-Type: application/json"];
    let mut post = || client.request("POST", "/body", &json, b"{\"user\":\"bob\"}").status;
    assert_eq!([0; 5].map(|_| post()), [200, 200, 429, 429, 429]);
    assert_eq!([0; 4].map(|_| client.get("/key", &[]).status), [401, 401, 429, 429]);
    assert_eq!(client.request("PUT", "/key", &[&key], b"").status, 429);
    let text = metrics(&gateway);
    let count = |policy: &str, outcome: &str| {
        let labels = format!("outcome=\"{outcome}\",plan=\"\",policy=\"{policy}\"");
        value(&text, &format!("tollgate_decisions_total{{{labels}}}"))
    };
    assert_eq!([count("per", "admitted"), count("per", "refused")], [Some(2), Some(3)], "{text}");
    assert_eq!([count("body", "admitted"), count("body", "exempt")], [Some(2), None], "{text}");
    assert_eq!(count("logins", "refused"), Some(3), "{text}");
    // The request with the key.
    assert_eq!(count("other", "exempt"), Some(1), "{text}");
}

#[test]
fn a_policy_that_cannot_decide_questions_is_not_exempt() {
    let gateway = Gateway::start(&format!(
        "check: {{ http: {{ address: \"127.0.0.1:0\" }} }}\n\
         policies:\n  \
           each: {{ key: ip, limit: 9/day }}\n  \
           flight: {{ key: ip, limit: 9, algorithm: concurrency }}\n\
         routes: [{{ path: /*, policies: [each, flight], respond: {{ status: 204 }} }}]\n{}",
        section("")
    ));
    let fields = [
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Method: GET",
        "X-Forwarded-Uri: /a",
        "X-Forwarded-Host: gateway.test",
    ];
    let answer = gateway.client().get("/auth", &fields);
    assert_eq!((answer.status, answer.field("x-tollgate-skipped")), (200, Some("flight")));
    let text = metrics(&gateway);
    let admitted = "tollgate_decisions_total{outcome=\"admitted\",plan=\"\",policy=\"each\"}";
    assert_eq!(value(&text, admitted), Some(1), "{text}");
    assert!(!text.contains("outcome=\"exempt\""), "{text}");
}

/// An alert saw the first refusal under the limit of an API key only if a scrape came between two.
#[test]
fn series_of_the_limits_of_keys_and_teams_begin_at_0() {
    let keys = Keys::new();
    keys.create(&[]);
    let policies = "policies: { per: { key: api_key, limit: 9/day } }\n\
                    routes: [{ path: /*, policies: [per], respond: { body: ok } }]\n";
    let gateway = keys.start("", &format!("{policies}{}", section("")));
    let text = metrics(&gateway);
    for plan in ["", "_key", "_team"] {
        let labels = format!("outcome=\"refused\",plan=\"{plan}\",policy=\"per\"");
        let series = format!("tollgate_decisions_total{{{labels}}}");
        assert_eq!(value(&text, &series), Some(0), "{text}");
    }
}

/// Counters of the store belong to a window, and the metric was the sum of those in use: it fell
/// when a reload changed the window, and rose again when another one changed it back.
#[test]
fn a_reload_that_changes_a_window_loses_no_counts() {
    let yaml = |limit: &str| {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             policies: {{ pr: {{ key: \"header:x-who\", limit: {limit}, algorithm: fixed_window }} }}\n\
             routes: [{{ path: /*, policies: [pr], respond: {{ body: ok }} }}]\n{}",
            section("")
        )
    };
    let gateway = Gateway::start(&yaml("1/s"));
    let mut client = gateway.client();
    let kept = |text: &str| value(text, "tollgate_promises_total{kept=\"true\",policy=\"pr\"}");
    assert_eq!(kept(&metrics(&gateway)), Some(0));
    // One key of 16 is watched.
    eventually("a refused client is admitted after its wait", || {
        for who in 0..300 {
            client.get("/", &[&format!("X-Who: {who}")]);
        }
        kept(&metrics(&gateway)) > Some(0)
    });
    let before = kept(&metrics(&gateway));
    gateway.reload(&yaml("1/2s"));
    assert_eq!(kept(&metrics(&gateway)), before);
    gateway.reload(&yaml("1/s"));
    assert_eq!(kept(&metrics(&gateway)), before);
}
