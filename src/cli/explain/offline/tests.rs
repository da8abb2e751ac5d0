//! Explanations by a configuration, as JSON and as text.

use std::net::IpAddr;

use tollgate_core::time::Timestamp;

use super::*;
use crate::cli::explain::text::text;
use crate::engine::{Description, Fields};

const CONFIG: &str = "
listeners: [{ address: \"127.0.0.1:0\" }]
client: { trusted_proxies: [10.0.0.0/8] }
upstreams: { app: { endpoints: [\"http://127.0.0.1:9\"] } }
policies:
  per-client:
    key: header:x-api-key
    limit: 100/minute
    algorithm: fixed_window
    plans: { from: header:x-plan, limits: { pro: 200/minute, staff: unlimited } }
  burst:
    key: ip
    limit: 10/second
    exempt: { methods: [PUT], headers: { x-internal: s3cret } }
  candidate: { key: global, limit: 1/day, mode: shadow, algorithm: fixed_window }
  tokens: { key: \"header:x-team\", limit: 5/day, missing_key: deny }
  tenants: { key: \"param:tenant\", limit: 5/day, missing_key: skip, soft: 20% }
routes:
  - { name: admin, hosts: [admin.example.com], path: /*, respond: { body: ok } }
  - { name: api, path: /v1/*, methods: [GET], upstream: app, policies: [burst] }
  - { name: orders, path: \"/v1/orders/{id}\", upstream: app, policies: [per-client, burst] }
  - { name: v2, path: /v2/*, upstream: app, policies: [candidate] }
  - { name: teams, path: /teams, upstream: app, policies: [tokens] }
  - { name: open, path: /open, respond: { body: ok } }
  - { name: tenant, path: \"/t/{tenant}\", respond: { body: ok }, policies: [tenants] }
";

fn request(method: &str, url: &str, headers: &[(&str, &str)], peer: &str) -> Asked {
    let owned = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let description = Description {
        method: method.to_owned(),
        url: format!("http://api.example.com{url}"),
        headers: Fields::List(owned.collect()),
        peer: Some(peer.parse::<IpAddr>().expect("an address")),
        tls_subject: None,
        body: None,
    };
    description.into_asked().expect("a request")
}

fn explain_by(config: &str, asked: &Asked, used: &[&str]) -> Result<Explanation, Problem> {
    let compiled = Config::parse(config, "gateway.yaml", &|_| None);
    let config = compiled.expect("it has no mistakes").config;
    let used: Vec<Used> = used.iter().map(|it| it.parse().expect("a number")).collect();
    // 14.2 s before the end of a minute.
    let clock = Clock::manual(Timestamp::from_micros(1_795_316_385_800_000));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(explained(config, &used, &clock, asked))
}

fn told(asked: &Asked, used: &[&str]) -> String {
    text(&explain_by(CONFIG, asked, used).expect("explained"))
}

#[test]
fn a_refusal_names_its_policy_and_when_the_request_fits() {
    let fields = [("X-Api-Key", "4f9d81"), ("X-Forwarded-For", "198.51.100.1")];
    let asked = request("POST", "/v1/orders/7", &fields, "203.0.113.7");
    assert_eq!(
        told(&asked, &["per-client=100"]),
        "Refused by per-client (429): 100 of 100 used, fits in 14.2 s\n\
         Route     orders (/v1/orders/{id})\n\
         \x20         not admin: host\n\
         \x20         not api: method\n\
         Client    203.0.113.0/24 (X-Forwarded-For not believed: peer is not a trusted proxy)\n\
         Policies  per-client: refused, 100 of 100 in 60 s used (policy), 0 left, costs 1, fits at \
         2026-11-22T03:00:00.000Z\n\
         \x20           key header x-api-key 4f… (tyvxq7ejhabp)\n\
         \x20         burst: admitted, 0 of 10 in 1 s used (policy), 10 left, costs 1\n\
         \x20           key ip 203.0.113.0/24 (9a1mdd4agshv)\n\
         Headers   ratelimit: \"per-client\";r=0;t=15, \"burst\";r=10;t=0\n\
         \x20         ratelimit-policy: \"per-client\";q=100;w=60, \"burst\";q=10;w=1\n\
         \x20         retry-after: 15\n\
         \x20         x-ratelimit-limit: 100\n\
         \x20         x-ratelimit-remaining: 0\n\
         \x20         x-ratelimit-reset: 15\n\
         \x20         x-ratelimit-retry-after: 15\n\
         Source    store\n"
            .to_owned()
    );
}

#[test]
fn an_admitted_request_shows_what_is_left_and_what_is_skipped() {
    let fields = [("X-Api-Key", "4f9d81"), ("X-Plan", "pro"), ("X-Forwarded-For", "198.51.100.1")];
    let asked = request("PUT", "/v1/orders/7", &fields, "10.0.0.1");
    let text = told(&asked, &["37"]);
    assert!(text.starts_with("Admitted: 38 of 200 used under per-client, 162 left\n"), "{text}");
    for line in [
        "Client    198.51.100.0/24 (X-Forwarded-For believed: peer is a trusted proxy)\n",
        "per-client: admitted, 38 of 200 in 60 s used (plan pro), 162 left, costs 1\n",
        "Skipped   burst: exempt: method PUT\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let staff = request(
        "POST",
        "/v1/orders/7",
        &[("X-Plan", "staff"), ("x-internal", "s3cret")],
        "10.0.0.1",
    );
    let text = told(&staff, &[]);
    assert!(text.starts_with("Admitted: no policy limits it\n"), "{text}");
    assert!(text.contains("Skipped   per-client: unlimited: plan staff\n"), "{text}");
    assert!(
        text.contains("burst: exempt: header x-internal\n") && !text.contains("s3cret"),
        "{text}"
    );
}

#[test]
fn a_policy_in_shadow_mode_refuses_nothing_and_says_so() {
    let text = told(&request("GET", "/v2/a", &[], "203.0.113.7"), &["1"]);
    assert!(text.starts_with("Admitted: no policy limits it\n"), "{text}");
    assert!(
        text.contains("candidate: shadow_refused, in shadow mode, 1 of 1 in 86400 s used"),
        "{text}"
    );
    assert!(
        text.contains("Note      candidate: refuses nothing, because it is in shadow mode\n"),
        "{text}"
    );
}

#[test]
fn a_request_without_a_route_or_a_key_is_explained_too() {
    let nowhere = told(&request("GET", "/nowhere", &[], "203.0.113.7"), &[]);
    let first = "Refused (404): no_route: no route matches the host, path and method of this request\n\
                 Route     none\n          not admin: host\n          not api: path\n";
    assert!(nowhere.starts_with(first), "{nowhere}");
    let lacking = told(&request("GET", "/teams", &[], "203.0.113.7"), &[]);
    let first = "Refused by tokens (403): key_missing: this route asks for a key";
    assert!(lacking.starts_with(first), "{lacking}");
    let doubled = [("x-team", "a"), ("x-team", "b")];
    let doubled = told(&request("GET", "/teams", &doubled, "203.0.113.7"), &[]);
    assert!(doubled.starts_with("Refused by tokens (400): ambiguous: "), "{doubled}");
    let slash = told(&request("POST", "/v1%2Forders/7", &[], "203.0.113.7"), &[]);
    assert!(slash.starts_with("Refused (400): ambiguous: "), "{slash}");
    assert!(
        slash.contains("some backends read the path /v1%2Forders/7 as /v1/orders/7"),
        "{slash}"
    );
    let trace = told(&request("TRACE", "/open", &[], "203.0.113.7"), &[]);
    assert!(trace.starts_with("Refused (405): trace: "), "{trace}");
    let disguised = told(&request("GET", "/teams", &[("x_team", "a")], "203.0.113.7"), &[]);
    assert!(disguised.starts_with("Refused (400): malformed: "), "{disguised}");
}

#[test]
fn soft_limits_and_requests_beyond_every_limit_are_named() {
    let asked = request("GET", "/t/acme", &[], "203.0.113.7");
    let soft = told(&asked, &["tenants=5"]);
    assert!(soft.starts_with("Admitted (soft): 6 of 5 used under tenants, 0 left\n"), "{soft}");
    assert!(soft.contains("x-ratelimit-soft: over\n"), "{soft}");
    let refused = told(&asked, &["6"]);
    assert!(refused.starts_with("Refused by tenants (429): 6 of 5 used, fits in "), "{refused}");
}

#[test]
fn a_policy_that_does_not_exist_is_a_mistake_of_usage() {
    let asked = request("GET", "/open", &[], "203.0.113.7");
    let error = explain_by(CONFIG, &asked, &["none=5"]).expect_err("no such policy");
    assert!(error.is_usage() && error.to_string().contains("per-client, burst"), "{error}");
}

#[test]
fn what_only_a_gateway_knows_is_noted() {
    let config = "
listeners: [{ address: \"127.0.0.1:0\" }]
store: { redis: { url: \"redis://127.0.0.1:1\" } }
upstreams: { app: { endpoints: [\"http://127.0.0.1:9\"], max_in_flight: 9 } }
policies:
  each:
    key: ip
    limit: 1/day
    store_mode: leased
    overrides: true
    elastic: { limit: 5/day, when: { upstream_in_flight_below: 50% } }
routes: [{ path: /*, upstream: app, policies: [each] }]
";
    let explanation =
        explain_by(config, &request("GET", "/", &[], "203.0.113.7"), &["1"]).expect("explained");
    assert!(!explanation.is_admitted());
    assert_eq!(
        explanation.warnings,
        [
            "each: whether the upstream has room is not known here",
            "limits of single keys are not read without a gateway"
        ]
    );
}

/// The document of docs/explain.md.
#[test]
fn the_document_has_the_documented_form() {
    let fields = [("X-Api-Key", "4f9d81")];
    let asked = request("GET", "/v1/a", &fields, "203.0.113.7");
    let explanation = explain_by(CONFIG, &asked, &["10"]).expect("explained");
    let document = serde_json::to_value(&explanation).expect("JSON");
    let read: Explanation = serde_json::from_value(document.clone()).expect("the same form");
    assert_eq!(read, explanation);
    assert_eq!(document["decision"], "refused");
    assert_eq!(document["policies"][0]["verdict"], "refused");
    assert_eq!(document["policies"][0]["window_s"], 1);
    let id = document["policies"][0]["key"]["id"].as_str().expect("an id");
    assert_eq!(id.len(), 12, "{id}");
    let names: Vec<&str> =
        document.as_object().expect("an object").keys().map(|it| &**it).collect();
    let page = include_str!("../../../../docs/explain.md");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/explain.md does not describe {name}");
    }
}

/// The gateway answers a preflight without a credential, and the explanation refused it.
#[test]
fn a_preflight_needs_no_credential() {
    let config = "
listeners: [{ address: \"127.0.0.1:0\" }]
client: { user: { header: x-user }, trusted_proxies: [203.0.113.0/24] }
policies: { per: { key: ip, limit: 50/minute, exempt_preflights: false } }
access: { staff: { rules: [{ allow: { values: { user: [ann] } } }], else: deny } }
routes:
  - path: /*
    auth: [user]
    access: [staff]
    cors: { origins: [\"https://a.test\"] }
    policies: [per]
    respond: { body: ok }
";
    let fields = [("Origin", "https://a.test"), ("Access-Control-Request-Method", "GET")];
    let told = |method: &str, fields: &[(&str, &str)]| {
        let asked = request(method, "/", fields, "203.0.113.7");
        text(&explain_by(config, &asked, &["per=1"]).expect("explained"))
    };
    let preflight = told("OPTIONS", &fields);
    assert!(preflight.starts_with("Admitted: 2 of 50 used under per, 48 left\n"), "{preflight}");
    for line in [
        "Access    staff: not asked (after auth)\n",
        "Note      the gateway answers this preflight itself, with 204 or 403\n",
    ] {
        assert!(preflight.contains(line), "{line}{preflight}");
    }
    let other = told("OPTIONS", &fields[..1]);
    assert!(other.starts_with("Refused (403): unauthorized: "), "{other}");
    let denied = told("GET", &[("X-User", "bob")]);
    assert!(denied.starts_with("Refused by staff (403): denied: "), "{denied}");
}

/// The units were counted for another key, and the counter of the explanation was empty.
#[test]
fn units_are_used_by_the_key_in_the_body() {
    let config = "
listeners: [{ address: \"127.0.0.1:0\" }]
policies: { bod: { key: \"json:/user\", limit: 100/minute, missing_key: deny } }
routes: [{ path: /*, policies: [bod], respond: { body: ok } }]
";
    let mut asked = request("POST", "/", &[("Content-Type", "application/json")], "203.0.113.7");
    asked.body = Some("{\"user\":\"bob\"}".to_owned());
    let told = text(&explain_by(config, &asked, &["100"]).expect("explained"));
    assert!(told.starts_with("Refused by bod (429): 100 of 100 used, fits in "), "{told}");
}

/// The explanation was that of the first route, which refuses the request.
#[test]
fn a_request_that_overflows_is_explained_by_the_later_route() {
    let config = "
listeners: [{ address: \"127.0.0.1:0\" }]
policies:
  team: { key: ip, limit: 2/day }
  all: { key: ip, limit: 9/day }
  spare: { key: \"json:/user\", limit: 4/day }
routes:
  - { name: off, path: /off, respond: { body: ok } }
  - { name: dear, path: /v1/*, policies: [team, all], respond: { body: ok }, overflow: { policies: [team], route: later } }
  - { name: later, path: /never, policies: [spare], respond: { body: ok } }
";
    let mut asked =
        request("POST", "/v1/a", &[("Content-Type", "application/json")], "203.0.113.7");
    asked.body = Some("{\"user\":\"bob\"}".to_owned());
    let told = |used: &[&str]| text(&explain_by(config, &asked, used).expect("explained"));
    let first = told(&["team=1"]);
    assert!(first.starts_with("Admitted: 2 of 2 used under team, 0 left\n"), "{first}");
    let later = told(&["team=2", "spare=1"]);
    let begin = "Admitted: 2 of 4 used under spare, 2 left\n\
                 Route     later (/never)\n          not off: path\n";
    assert!(later.starts_with(begin), "{later}");
    let note = "Note      team of the route dear refuses the request, which overflows to the route \
                later\n";
    assert!(later.contains(note), "{later}");
    let refused = told(&["2", "spare=4"]);
    assert!(refused.starts_with("Refused by spare (429): 4 of 4 used, fits in "), "{refused}");
    // A policy refuses that does not overflow.
    let all = told(&["team=2", "all=9"]);
    assert!(all.starts_with("Refused by ") && all.contains("\nRoute     dear "), "{all}");
}
