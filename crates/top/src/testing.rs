//! Figures for tests.

use serde_json::json;
use tollgate_core::time::Timestamp;

use super::clean::document;
use super::figures::{Answers, Figures};
use super::model::State;

/// Some time in November 2026.
fn at(secs: u64) -> Timestamp {
    Timestamp::from_micros((1_795_000_000 + secs) * 1_000_000)
}

/// A state with the answers of this many gateways, three seconds old.
pub(super) fn state(nodes: usize) -> State {
    State::new(figures(nodes), None, at(3))
}

/// A state in which the second gateway has stopped to answer.
pub(super) fn lost() -> State {
    let mut state = state(2);
    state.figures.take(
        1,
        Err("cannot connect: Connection refused (os error 111)".to_owned()),
        at(5),
    );
    state.now = at(65);
    state
}

/// The answers of this many gateways.
pub(super) fn figures(nodes: usize) -> Figures {
    let urls: Vec<String> = (1..=nodes).map(|it| format!("http://10.0.0.{it}:9901")).collect();
    let mut figures = Figures::new(&urls);
    for index in 0..nodes {
        figures.take(index, Ok(answers(index)), at(0));
    }
    figures
}

fn answers(index: usize) -> Answers {
    let degraded = json!([{ "code": "upstream_down", "since": "2026-11-18T08:26:40.000Z",
        "text": "no endpoint of the upstream \"app\" is in service" }]);
    let is_well = index == 0;
    let status = json!({
        "state": if is_well { "ok" } else { "degraded" },
        "reasons": if is_well { json!([]) } else { degraded },
        "rates": {
            "per_second": { "requests": 1234.5, "refused": 21.25, "errors": 0.0 },
            "duration_us": { "p50": { "over": 250, "to": 500 }, "p99": { "over": 5000, "to": 10_000 } },
            "busy": { "workers": 2, "mean": 0.2, "busiest": 0.25 },
            "sources": { "store": 9800, "local": 200 },
        },
    });
    let policy = |name: &str, admitted: u64, refused: u64, near: f64| {
        json!({
            "name": name, "mode": "enforce", "patch": null,
            "limit": { "units": 100, "window_ms": 60_000, "burst": 100 },
            "outcomes": { "1m": { "admitted": admitted, "refused": refused, "seconds": 60.0 } },
            "use": { "measured": 100, "near": near }, "unsettled": { "absent": 2, "left": 1 },
        })
    };
    let policies =
        json!({ "items": [policy("per-client", 90, 10, 0.25), policy("global", 990, 50, 0.5)] });
    let client = |id: &str, text: &str, requests: u64, refused: u64| {
        json!({
            "id": id, "text": text, "requests": requests, "refused": refused, "error": 2,
            "use": if refused > 5 { json!(1.0) } else { json!(0.455) },
        })
    };
    let clients = json!({ "policies": [{
        "policy": "per-client", "requests": 100, "refused": 10, "unlisted": 3,
        "clients": [
            client("k7f2m9qd0v3x", "header x-api-key 4f…", 60, 9),
            client("0000000000zz", "header x-api-key \u{1b}]0;owned\u{7}", 30, 1),
        ],
    }] });
    let refusal = |second: u64, path: &str| {
        json!({
            "time": format!("2026-11-18T08:26:{second:02}.000Z"), "request_id": "7f9c1d2e",
            "policy": "per-client", "limit": 100, "used": 100, "wait_ms": 14_200, "route": "orders",
            "source": "store", "method": "GET", "path": path,
            "key": { "id": "k7f2m9qd0v3x", "text": "header x-api-key 4f…" },
        })
    };
    let refusals = json!({ "items": [refusal(38, "/v1/orders"), refusal(37, "/v1/\u{202e}x")] });
    let upstreams = json!({ "items": [{ "name": "app", "in_flight": 3, "endpoints": [
        { "address": "10.1.0.1:80", "state": "up", "for_ms": null },
        { "address": "10.1.0.2:80", "state": "ejected", "for_ms": 9000 },
    ] }] });
    let nodes = json!({ "items": [{ "id": "00c0ffee00c0ffee", "scope": "cluster", "version": "0.1.0",
        "requests_per_s": 1234.5, "refusals_per_s": 21.2, "breakers_open": 0, "patches": 1,
        "memory_bytes": 41_000_000, "config": "0123456789abcdef", "differs_in": [], "admin": "10.0.0.1:9901" }] });
    let second = |requests: f64, refused: f64, seconds: f64| json!({ "seconds": seconds, "per_second": { "requests": requests, "refused": refused } });
    let history = json!({ "step": 10, "items": [
        second(0.0, 0.0, 4.0), second(600.0, 0.0, 10.0), second(1200.0, 5.0, 10.0),
        second(2400.0, 40.0, 10.0), second(1234.5, 21.25, 10.0), second(9999.0, 99.0, 2.0),
    ] });
    Answers {
        history: document(history),
        status: document(status),
        policies: document(policies),
        clients: vec![document(clients)],
        refusals: document(refusals),
        upstreams: document(upstreams),
        nodes: document(nodes),
        failures: Vec::new(),
    }
}
