//! `/v1/settle` of requests to language models: the tokens that they have used, and the shares of a
//! budget that they pass.

use serde_json::{Value, json};

use super::api::Caller;
use crate::support::{Gateway, StoreKind, eventually, on_every_store};

on_every_store!(
    the_tokens_of_a_request_settle_it,
    a_cost_that_is_stated_is_no_estimate,
    a_settlement_that_passes_a_share_is_reported_once,
);

const TOKEN: &str = "0123456789abcdef";

fn gateway(store: StoreKind, budget: &str) -> Gateway {
    store.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         check: {{ http: {{ address: \"127.0.0.1:0\", \
           tokens: [{{ token: \"{TOKEN}\", policies: [budget, calls, api] }}] }} }}\n\
         policies:\n  \
           budget: {{ key: \"header:x-team\", limit: 1000/day, algorithm: fixed_window, {budget} }}\n  \
           calls: {{ key: \"header:x-team\", limit: 50/day }}\n\
         routes: [{{ name: api, path: /*, policies: [budget, calls], respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 1 }}\n"
    ))
}

const COST: &str = "cost: { reserve: 100, settle: { usage: openai, \
                    weights: { cache_read: 10%, cache_write: 125%, output: 200% } } }";

fn lease(caller: &mut Caller, question: Value) -> Value {
    let mut question = question;
    question["lease"] = json!(true);
    let answer = caller.check(&question);
    assert_eq!(answer["admitted"], true, "{answer}");
    answer["lease"].clone()
}

fn the_tokens_of_a_request_settle_it(store: StoreKind) {
    let gateway = gateway(store, COST);
    let mut caller = Caller::of(&gateway);
    let request =
        json!({ "host": "a", "path": "/", "ip": "192.0.2.7", "headers": { "x-team": "ann" } });
    let both = lease(&mut caller, json!({ "route": "api", "request": request }));
    assert_eq!([900, 49], ["budget", "calls"].map(|it| caller.remaining(it, "ann")));
    let usage = json!({ "input": 20, "cache_read": 15, "cache_write": 2, "output": 60 });
    let settled = json!({ "lease": both, "usage": usage, "model": "gpt-5" });
    // 20 + 10 % of 15 + 125 % of 2 + 200 % of 60, rounded up once.
    for _ in 0..2 {
        assert_eq!(caller.call("/v1/settle", &settled), (200, json!({ "actual": 144 })));
    }
    // What counts no tokens keeps what it has charged.
    assert_eq!([856, 49], ["budget", "calls"].map(|it| caller.remaining(it, "ann")));
    // The same tokens in total, of other kinds or of another model, have another cost.
    let other_kinds = json!({ "input": 60, "cache_read": 15, "cache_write": 2, "output": 20 });
    for other in [
        json!({ "usage": { "input": 97 }, "model": "gpt-5" }),
        json!({ "usage": other_kinds, "model": "gpt-5" }),
        json!({ "usage": usage, "model": "gpt-5-mini" }),
        json!({ "usage": usage }),
        json!({ "usage": {}, "model": "gpt-5" }),
        json!({ "actual": 97 }),
        json!({ "actual": 144 }),
    ] {
        assert_eq!(caller.end("/v1/settle", &both, &other), 409, "{other}");
    }
    assert_eq!(caller.call("/v1/settle", &settled), (200, json!({ "actual": 144 })));
    let other = lease(&mut caller, json!({ "policy": "budget", "key": "ann", "cost": 100 }));
    assert_eq!(caller.remaining("budget", "ann"), 756);
    assert_eq!(caller.end("/v1/settle", &other, &json!({ "usage": {} })), 200);
    assert_eq!(caller.remaining("budget", "ann"), 856, "no tokens cost nothing");

    for (verb, body, pointer) in [
        ("settle", json!({ "actual": 1, "usage": {} }), "/actual"),
        ("settle", json!({ "actual": 1, "model": "m" }), "/model"),
        ("settle", json!({ "usage": { "input": -1 } }), "/usage/input"),
        ("settle", json!({ "usage": { "tokens": 1 } }), "/usage/tokens"),
        ("settle", json!({ "usage": [1, 2, 3, 4] }), "/usage"),
        ("settle", json!({ "usage": {}, "model": 5 }), "/model"),
        ("release", json!({ "usage": {} }), "/usage"),
        ("release", json!({ "model": "m" }), "/model"),
        ("renew", json!({ "usage": {} }), "/usage"),
    ] {
        let mut call = json!({ "lease": both });
        let fields = body.as_object().expect("it is an object").clone();
        call.as_object_mut().expect("it is an object").extend(fields);
        let (status, problem) = caller.call(&format!("/v1/{verb}"), &call);
        assert_eq!(
            (status, &problem["pointer"]),
            (400, &json!(pointer)),
            "{verb} {body}: {problem}"
        );
    }
}

/// At most the limit was once charged, and the caller took its whole cost for granted.
fn a_cost_that_is_stated_is_no_estimate(store: StoreKind) {
    let gateway = gateway(store, "cost: { reserve: {}, settle: { usage: openai } }");
    let mut caller = Caller::of(&gateway);
    let request = json!({
        "method": "POST", "host": "a", "path": "/v1/chat/completions", "ip": "192.0.2.7",
        "headers": { "x-team": "ann", "content-type": "application/json" },
        "body": json!({ "model": "m", "max_tokens": 9, "messages": [] }).to_string(),
    });
    let question = |more: Value| {
        let mut question = json!({ "policy": "budget", "request": request });
        let more = more.as_object().expect("it is an object").clone();
        question.as_object_mut().expect("it is an object").extend(more);
        question
    };
    let refused = caller.check(&question(json!({ "cost": 50_000 })));
    let found = (&refused["admitted"], &refused["retry_after_ms"], &refused["remaining"]);
    assert_eq!(found, (&json!(false), &Value::Null, &json!(1000)), "{refused}");
    assert_eq!(caller.check(&question(json!({ "cost": 300 })))["remaining"], 700);
    let other = json!({ "policy": "budget", "key": "bob", "cost": 50_000, "estimate": true });
    assert_eq!(caller.check(&other)["admitted"], true);
    assert_eq!(caller.remaining("budget", "bob"), 0);
}

/// The lines of the log about a share.
fn lines(gateway: &Gateway, share: u8) -> usize {
    let log = gateway.log();
    let about = log.lines().filter(|line| line.contains("has passed a share of its limit"));
    let forms = [format!("share={share} "), format!("\"share\":{share},")];
    about.filter(|line| forms.iter().any(|form| line.contains(form))).count()
}

fn a_settlement_that_passes_a_share_is_reported_once(store: StoreKind) {
    // No name of a temporary directory and no pseudonym of a key has a hyphen.
    const KEY: &str = "ann-7";
    let gateway = gateway(store, &format!("warn: [50%, 80%], {COST}"));
    let mut caller = Caller::of(&gateway);
    let mut leases = Vec::new();
    for _ in 0..3 {
        let question = json!({ "policy": "budget", "key": KEY, "cost": 100 });
        leases.push(lease(&mut caller, question));
    }
    assert_eq!([lines(&gateway, 50), lines(&gateway, 80)], [0; 2]);
    // 300 units are charged; the first settlement makes that 499.
    assert_eq!(caller.end("/v1/settle", &leases[0], &json!({ "actual": 299 })), 200);
    assert_eq!(lines(&gateway, 50), 0);
    for _ in 0..2 {
        assert_eq!(
            caller.end("/v1/settle", &leases[1], &json!({ "usage": { "input": 101 } })),
            200
        );
    }
    eventually("the log has the first share", || lines(&gateway, 50) == 1);
    assert_eq!(caller.end("/v1/settle", &leases[2], &json!({ "actual": 900 })), 200);
    eventually("the log has the second share", || lines(&gateway, 80) == 1);
    assert_eq!(lines(&gateway, 50), 1);
    assert_eq!(caller.remaining("budget", KEY), 0);
    assert!(!gateway.log().contains(KEY), "the client's key is not in the log");
}
