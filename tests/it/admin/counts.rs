//! What metrics count of policies that were not asked.

use crate::api_keys::{Keys, field};
use crate::support::Gateway;

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
