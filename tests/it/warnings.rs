//! `warn` of a policy: the request or the settlement that passes a share of a limit is reported once.

use serde_json::Value;

use crate::support::{Gateway, Origin, StoreKind, eventually, on_every_store};
use crate::traffic::{TOKEN, metric};

on_every_store!(
    the_request_that_passes_a_share_is_reported,
    a_settlement_that_passes_a_share_is_reported,
    a_settlement_that_passes_the_limit_is_reported_with_what_was_used,
    one_of_two_gateways_reports_a_share,
);

const WARNED: &str = "tollgate_warned_total";

/// The admin listener, for one worker.
fn top() -> String {
    format!(
        "runtime: {{ workers: 1 }}\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: m, role: read, token: {TOKEN} }}] }}\n"
    )
}

fn warned(gateway: &Gateway, share: u8) -> f64 {
    metric(gateway, WARNED, &[&format!("share=\"{share}\""), "policy=\"per-client\""])
}

/// The lines of the log about a share.
fn lines(gateway: &Gateway, share: u8) -> usize {
    let log = gateway.log();
    let about = log.lines().filter(|line| line.contains("has passed a share of its limit"));
    let forms = [format!("share={share} "), format!("\"share\":{share},")];
    about.filter(|line| forms.iter().any(|form| line.contains(form))).count()
}

fn the_request_that_passes_a_share_is_reported(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 10/month, warn: [50%, 90%]";
    let gateway = store.limiting_with(&origin, policy, &top());
    assert_eq!([warned(&gateway, 50), warned(&gateway, 90)], [0.0; 2], "the series begin at 0");
    let mut client = gateway.client();
    let told = [0; 12].map(|_| {
        let response = client.get("/", &[]);
        (response.status, response.field("X-Ratelimit-Warn").map(str::to_owned))
    });
    let expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map(|request| {
        let share = match request {
            5 => Some("50".to_owned()),
            9 => Some("90".to_owned()),
            _ => None,
        };
        (if request > 10 { 429 } else { 200 }, share)
    });
    assert_eq!(told, expected);
    assert_eq!([warned(&gateway, 50), warned(&gateway, 90)], [1.0; 2]);
    eventually("the log has it", || lines(&gateway, 50) == 1 && lines(&gateway, 90) == 1);
    assert!(!gateway.log().contains("127.0.0.1 has"), "the client's key is not in the log");
}

fn a_settlement_that_passes_a_share_is_reported(store: StoreKind) {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nX-Tokens: 60\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let policy = "key: ip, limit: 100/day, algorithm: fixed_window, store_mode: exact, \
                  warn: [50%, 80%], cost: { reserve: 1, settle: { header: x-tokens } }";
    let gateway = store.limiting_with(&origin, policy, &top());
    let mut client = gateway.client();
    let first = client.get("/", &[]);
    assert_eq!((first.status, first.field("X-Ratelimit-Warn")), (200, None));
    // The head of the response was sent before.
    eventually("it is counted", || warned(&gateway, 50) == 1.0);
    let second = client.get("/", &[]);
    assert_eq!((second.status, second.field("X-Ratelimit-Warn")), (200, None));
    eventually("it is counted", || warned(&gateway, 80) == 1.0);
    assert_eq!(warned(&gateway, 50), 1.0);
}

/// The counter itself knows no more than the limit then.
fn a_settlement_that_passes_the_limit_is_reported_with_what_was_used(store: StoreKind) {
    let origin = Origin::answering(|_| {
        "HTTP/1.1 200 OK\r\nX-Tokens: 150\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    for soft in ["", "soft: 10%, "] {
        let policy = format!(
            "key: ip, limit: 100/day, algorithm: fixed_window, store_mode: exact, {soft}\
             warn: [50%], cost: {{ reserve: 1, settle: {{ header: x-tokens }} }}"
        );
        let gateway = store.limiting_with(&origin, &policy, &top());
        assert_eq!(gateway.client().get("/", &[]).status, 200);
        eventually("it is reported", || lines(&gateway, 50) == 1);
        let log = gateway.log();
        let line = log.lines().find(|line| line.contains("passed a share")).unwrap_or_default();
        let forms = ["used=150 limit=100", "\"used\":150,"];
        assert!(forms.iter().any(|form| line.contains(form)), "{line}");
    }
}

fn one_of_two_gateways_reports_a_share(store: StoreKind) {
    let Some(redis) = store.redis() else { return };
    let origin = Origin::hello();
    let policy = "key: ip, limit: 20/day, algorithm: fixed_window, store_mode: exact, \
                  warn: [50%, 90%]";
    let section = format!("store: {{ redis: {{ {redis} }} }}\n");
    let gateways =
        [0; 2].map(|_| Gateway::limiting_with(&origin, policy, &format!("{}{section}", top())));
    let mut told = Vec::new();
    for request in 0..20 {
        let response = gateways[request % 2].client().get("/", &[]);
        assert_eq!(response.status, 200);
        told.extend(response.field("X-Ratelimit-Warn").map(|share| (request, share.to_owned())));
    }
    assert_eq!(told, [(9, "50".to_owned()), (17, "90".to_owned())]);
    let sum = |share| gateways.iter().map(|gateway| warned(gateway, share)).sum::<f64>();
    assert_eq!([sum(50), sum(90)], [1.0; 2]);
}

#[test]
fn the_stream_of_events_has_each_warning_once_and_no_key() {
    let origin = Origin::hello();
    let policy = "key: \"header:x-tenant\", limit: 4/day, warn: [50%]";
    let gateway = Gateway::limiting_with(&origin, policy, &top());
    let address = gateway.addresses()[1];
    let mut stream = crate::support::Client::connect(address);
    let head = format!(
        "GET /v1/events?topics=budgets HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {TOKEN}\r\n\r\n"
    );
    stream.send(head.as_bytes());
    assert_eq!(stream.head().status, 200);
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/", &["X-Tenant: a-secret-name"]).status, 200);
    }
    let chunk = stream.chunk().expect("it goes on").expect("it goes on");
    let text = String::from_utf8(chunk).expect("UTF-8");
    let data = text.strip_prefix("event: budgets\ndata: ").expect(&text);
    let data: Value = serde_json::from_str(data.trim()).expect("it is JSON");
    let items = data["items"].as_array().expect("a list");
    let [item] = &items[..] else { panic!("{data}") };
    let shown = ["policy", "share", "used", "limit"].map(|name| item[name].clone());
    assert_eq!(shown, ["per-client".into(), 50.into(), 2.into(), Value::from(4)]);
    assert!(!text.contains("a-secret-name"), "{text}");
    // The log has the same id.
    let id = item["id"].as_str().expect("a text");
    eventually("the log has it", || gateway.log().contains(id));
    assert!(!gateway.log().contains("a-secret-name"));
}
