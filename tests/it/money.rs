//! Budgets in money: what requests cost, what is refused, and changes of prices while a gateway runs.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::support::redis::{Options, Redis};
use crate::support::{
    Client, Gateway, Origin, Program, Response, StoreKind, eventually, on_every_store,
};
use crate::traffic::{TOKEN, metric};

on_every_store!(
    requests_cost_the_price_of_their_model_to_the_millionth,
    a_model_without_a_price_is_refused_and_a_free_one_passes_when_the_budget_is_used_up,
    a_request_for_a_free_model_costs_what_the_model_that_answers_does,
    what_a_settlement_counts_beyond_the_limit_is_in_a_metric,
);

const PRICES: &str = "prices: { currency: usd, models: { \
    \"gpt-5*\": { input: 1.25, cache_read: 0.125, output: 10 }, \
    gpt-5-dear: { input: 100, output: 1_000, request: 0.01, \
                  long: { above: 999, input: 200, output: 2_000 } }, \
    free: { input: 0, output: 0 } } }\n";

const COST: &str = "cost: { reserve: {}, settle: { usage: openai } }";

/// Answers `/MODEL/INPUT/OUTPUT` with this model and these tokens, and `/models` without a usage.
pub(crate) fn model() -> Origin {
    Origin::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default().to_owned();
        let mut parts = path.split('/').skip(1);
        let mut next = || parts.next().unwrap_or_default();
        let model = next();
        let input = next();
        let output = next();
        let body = match path.as_str() {
            "/models" => "{\"data\":[]}".to_owned(),
            _ => format!(
                "{{\"model\":\"{model}\",\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output}}}}}"
            ),
        };
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    })
}

/// A request for the model `asked`, which the model in `path` answers.
fn ask(client: &mut Client, asked: &str, path: &str) -> Response {
    let body = format!("{{\"model\":\"{asked}\",\"max_tokens\":10,\"messages\":[]}}");
    client.request("POST", path, &["Content-Type: application/json"], body.as_bytes())
}

/// The units that remain when a request for a free model is admitted.
fn left(client: &mut Client) -> u64 {
    ask(client, "free", "/free/1/1").number("X-Ratelimit-Remaining")
}

fn requests_cost_the_price_of_their_model_to_the_millionth(store: StoreKind) {
    let origin = model();
    let policy = format!("key: ip, limit: 1.00 usd/day, algorithm: fixed_window, {COST}");
    let top = format!(
        "{PRICES}admin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: m, role: metrics, token: {TOKEN} }}] }}"
    );
    let gateway = store.limiting_with(&origin, &policy, &top);
    let mut client = gateway.client();
    let mut spent = 0;
    for (asked, path, cost) in [
        // 7 * 1.25 + 3 * 10 = 38.75 millionths, rounded up once.
        ("gpt-5", "/gpt-5/7/3", 39),
        ("GPT-5-mini", "/unheard-of/7/3", 39),
        ("free", "/free/1000/1000", 0),
        // The answer is that of another model than the request names.
        ("gpt-5", "/gpt-5-dear/10/1", 10_000 + 1_000 + 1_000),
        ("gpt-5-dear", "/gpt-5-dear/1000/1", 10_000 + 200_000 + 2_000),
    ] {
        let response = ask(&mut client, asked, path);
        assert_eq!(response.status, 200, "{asked} {path}: {response:?}");
        spent += cost;
        eventually("it is settled", || left(&mut client) == 1_000_000 - spent);
    }
    let policies = ask(&mut client, "free", "/free/1/1");
    let policies = policies.field("RateLimit-Policy").unwrap_or_default().to_owned();
    assert!(policies.contains("q=1000000;qu=\"usd-6\";w=86400"), "{policies}");
    let model = |name: &str| metric(&gateway, "tollgate_spent_units_total", &[name]);
    eventually("metrics know what models cost", || {
        model("model=\"gpt-5*\"") == 78.0 && model("model=\"gpt-5-dear\"") == 224_000.0
    });
    let tokens = |kind: &str| {
        metric(&gateway, "tollgate_tokens_total", &["model=\"gpt-5*\"", &format!("kind={kind:?}")])
    };
    assert_eq!([tokens("input"), tokens("output")], [14.0, 6.0]);
}

fn a_model_without_a_price_is_refused_and_a_free_one_passes_when_the_budget_is_used_up(
    store: StoreKind,
) {
    let origin = model();
    let policy = format!("key: ip, limit: 0.01 usd/day, algorithm: fixed_window, {COST}");
    let gateway = store.limiting_with(&origin, &policy, PRICES);
    let mut client = gateway.client();
    for asked in ["claude", "", "gpt"] {
        let denied = ask(&mut client, asked, "/free/1/1");
        assert_eq!(denied.status, 403, "{asked}: {denied:?}");
        assert!(denied.text().contains("has no price"), "{}", denied.text());
    }
    // A list of models has no body, so it needs no price and costs nothing.
    let asked = |client: &mut Client, fields: &[&str]| {
        let response = client.get("/models", fields);
        (response.status, response.number("X-Ratelimit-Remaining"))
    };
    let list = |client: &mut Client| asked(client, &[]);
    assert_eq!(list(&mut client), (200, 10_000));
    assert_eq!(ask(&mut client, "gpt-5", "/gpt-5/0/1000").status, 200);
    let refused = || ask(&mut gateway.client(), "gpt-5", "/gpt-5/0/1").status == 429;
    eventually("the budget is used up", refused);
    assert_eq!(list(&mut client), (200, 0));
    let websocket = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: a"];
    assert_eq!(asked(&mut client, &websocket), (200, 0));
    let free = ask(&mut client, "Free", "/free/1000/1000");
    assert_eq!((free.status, free.number("X-Ratelimit-Remaining")), (200, 0));
    eventually("the access log names the outcome", || {
        gateway.access_lines(1).iter().any(|line| line["outcome"] == "model_unpriced")
    });
}

/// A name such as that of a router may be free, while the answer names the model that is paid.
fn a_request_for_a_free_model_costs_what_the_model_that_answers_does(store: StoreKind) {
    let origin = model();
    let policy = format!("key: ip, limit: 0.02 usd/day, algorithm: fixed_window, {COST}");
    let top = format!(
        "{PRICES}runtime: {{ workers: 1 }}\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: m, role: metrics, token: {TOKEN} }}] }}"
    );
    let gateway = store.limiting_with(&origin, &policy, &top);
    let ask = |asked: &str, path: &str| ask(&mut gateway.client(), asked, path).status;
    assert_eq!(ask("free", "/gpt-5/1000/1000"), 200);
    eventually("it is settled", || left(&mut gateway.client()) == 20_000 - 11_250);
    // The model that answers is not free, and states no tokens.
    assert_eq!(ask("free", "/gpt-5/none/none"), 200);
    assert_eq!(ask("free", "/gpt-5/0/2000"), 200);
    eventually("it is settled", || left(&mut gateway.client()) == 0);
    assert_eq!(ask("gpt-5", "/gpt-5/0/1"), 429);
    assert_eq!(ask("free", "/gpt-5/1000/1000"), 200, "a free model is never refused");
    let shown = |path: &str, name: &str| -> Vec<serde_json::Value> {
        let lines = gateway.access_lines(1);
        let about = lines.iter().filter(|line| line["path"] == path);
        about.map(|line| line[name].clone()).collect()
    };
    eventually("the access log has both", || shown("/gpt-5/1000/1000", "spent").len() == 2);
    assert_eq!(shown("/gpt-5/1000/1000", "spent"), [0.011_25, 0.011_25]);
    assert_eq!(shown("/gpt-5/none/none", "unsettled"), ["absent"]);
    let spent = || metric(&gateway, "tollgate_spent_units_total", &["model=\"gpt-5*\""]);
    eventually("the metric says the same", || spent() == 2.0 * 11_250.0 + 20_000.0);
}

fn what_a_settlement_counts_beyond_the_limit_is_in_a_metric(store: StoreKind) {
    let origin = model();
    let policy = format!("key: ip, limit: 0.01 usd/day, algorithm: fixed_window, {COST}");
    let top = format!(
        "{PRICES}runtime: {{ workers: 1 }}\n\
         admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
         {{ name: r, role: read, token: {TOKEN} }}] }}"
    );
    let gateway = store.limiting_with(&origin, &policy, &top);
    let over = || metric(&gateway, "tollgate_over_limit_units_total", &["policy=\"per-client\""]);
    assert_eq!(ask(&mut gateway.client(), "gpt-5", "/gpt-5/0/900").status, 200);
    eventually("it is settled", || left(&mut gateway.client()) == 1_000);
    assert_eq!(over(), 0.0);
    // It costs 15,000 millionths, of which 1,000 are left.
    assert_eq!(ask(&mut gateway.client(), "gpt-5", "/gpt-5/0/1500").status, 200);
    eventually("it is counted", || over() == 14_000.0);
    // The views have the amount.
    let mut admin = Client::connect(gateway.addresses()[1]);
    let policies = admin.get("/v1/policies", &[&format!("Authorization: Bearer {TOKEN}")]).text();
    let policies: serde_json::Value = serde_json::from_str(&policies).expect("JSON");
    let limit = &policies["items"][0]["limit"];
    assert_eq!((&limit["units"], &limit["unit"]), (&10_000.into(), &"usd-6".into()), "{policies}");
}

#[test]
fn explain_names_the_entry_and_shows_amounts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    let yaml = format!(
        "{PRICES}listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ team: {{ key: ip, limit: 5 usd/day, {COST} }} }}\n\
         routes: [{{ path: \"/*\", policies: [team], upstream: model }}]\n\
         upstreams: {{ model: http://127.0.0.1:9 }}\n"
    );
    fs::write(&file, yaml).expect("a file");
    let explain = |model: &str| {
        let body = format!("{{\"model\":\"{model}\",\"max_tokens\":100,\"messages\":[]}}");
        let file = file.to_str().expect("UTF-8");
        let json = "Content-Type: application/json";
        let url = "http://gateway.test/v1/chat/completions";
        Program::run(&["explain", "-c", file, "-H", json, "-d", &body, url])
    };
    let priced = explain("gpt-5-mini");
    assert_eq!(priced.code, Some(0), "{}", priced.stderr);
    // 18 tokens of input at 1.25 and 100 of output at 10.
    for part in [
        "0.001023 usd of 5.00 usd used under team, 4.998977 usd left",
        "costs 0.001023 usd",
        "reserves 18 tokens of input and 100 of output of \"gpt-5-mini\", at the price of \"gpt-5*\"",
    ] {
        assert!(priced.stdout.contains(part), "{part}: {}", priced.stdout);
    }
    let unpriced = explain("claude");
    assert_eq!(unpriced.code, Some(3), "{}", unpriced.stderr);
    let line = "Refused by team (403): model_unpriced: the model of this request has no price here";
    assert!(unpriced.stdout.starts_with(line), "{}", unpriced.stdout);
}

#[test]
fn a_changed_file_of_prices_is_in_force_and_a_broken_one_keeps_the_prices_and_is_reported() {
    let origin = model();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("prices.yaml");
    let rewrite = |text: &str| {
        let next = file.with_extension("new");
        fs::write(&next, text).expect("it can be written");
        fs::rename(next, &file).expect("it can be moved");
    };
    rewrite("old: { input: 1, output: 1 }\n");
    let policy = format!("key: ip, limit: 5 usd/day, {COST}");
    let shown = file.to_str().expect("UTF-8");
    let top = format!(
        "prices: {{ currency: usd, file: {shown} }}\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, token: {TOKEN} }}], \
         hosts: [gateway.test] }}"
    );
    let gateway = Gateway::limiting_with(&origin, &policy, &top);
    let ask = |name: &str| ask(&mut gateway.client(), name, "/x/1/1").status;
    assert_eq!([ask("old"), ask("new")], [200, 403]);
    rewrite("new: { input: 2, output: 2 }\n");
    eventually("the new price is known", || [ask("old"), ask("new")] == [403, 200]);
    let admin = |path: &str| {
        let mut client = Client::connect(gateway.addresses()[1]);
        client.get(path, &[&format!("Authorization: Bearer {TOKEN}")]).text()
    };
    let metric =
        |value: u8| format!("tollgate_price_file_last_load_successful{{file={shown:?}}} {value}");
    rewrite("new: { input: 0.0000001, output: 2 }\n");
    eventually("the mistake is known", || {
        thread::sleep(Duration::from_millis(100));
        admin("/metrics").contains(&metric(0)) && admin("/v1/status").contains("price_file_broken")
    });
    assert!(gateway.log().contains("is not a price"), "{}", gateway.log());
    assert_eq!([ask("old"), ask("new")], [403, 200], "the prices stay");
    rewrite("old: { input: 1, output: 1 }\n");
    eventually("it is well", || {
        thread::sleep(Duration::from_millis(100));
        admin("/metrics").contains(&metric(1)) && !admin("/v1/status").contains("price_file_broken")
    });
    assert_eq!([ask("old"), ask("new")], [200, 403]);
}

#[test]
fn a_single_key_may_have_another_budget_in_money() {
    let origin = model();
    let directory = tempfile::tempdir().expect("a directory");
    let overrides = directory.path().join("overrides.redb");
    let policy = format!("key: \"header:x-team\", limit: 5 usd/day, overrides: true, {COST}");
    let top = format!("{PRICES}store: {{ overrides: {{ path: {:?} }} }}\n", overrides);
    let gateway = Gateway::limiting_with(&origin, &policy, &top);
    let set = |limit: &str| gateway.overrides(&["set", "per-client", "a", limit]);
    let output = set("7.50 usd");
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(
        output.stdout.contains("7.50 usd/1d (the policy's own limit: 5.00 usd/1d)"),
        "{}",
        output.stdout
    );
    let body = b"{\"model\":\"free\"}";
    let limit = || {
        let fields = ["Content-Type: application/json", "X-Team: a"];
        gateway.client().request("POST", "/free/1/1", &fields, body).number("X-Ratelimit-Limit")
    };
    eventually("it applies", || limit() == 7_500_000);
    for (wrong, message) in [
        ("7 eur", "the prices are in usd"),
        ("0.0000001 usd", "has more than 6 decimals"),
        ("700", "counts money in usd"),
        ("600_000 usd", "the largest limit is 549755.813887 usd"),
    ] {
        let output = set(wrong);
        assert_ne!(output.code, Some(0), "{wrong}");
        assert!(output.stderr.contains(message), "{wrong}: {}", output.stderr);
    }
    assert_eq!(limit(), 7_500_000);
}

#[test]
fn the_access_log_has_what_each_request_has_cost() {
    let origin = model();
    let yaml = format!(
        "{PRICES}runtime: {{ workers: 1 }}\n\
         listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         policies:\n  \
           money: {{ key: ip, limit: 0.02 usd/day, algorithm: fixed_window, {COST} }}\n  \
           tokens: {{ key: ip, limit: 1000000/day, {COST} }}\n\
         routes:\n\
         - {{ path: \"/gpt-5/*\", policies: [tokens, money], upstream: app }}\n\
         - {{ path: \"/free/*\", policies: [money], upstream: app }}\n\
         - {{ path: \"/other/*\", policies: [tokens], upstream: app }}\n",
        origin.address()
    );
    let wanted = [
        // 7 * 1.25 + 3 * 10 = 38.75 millionths, rounded up once.
        ("gpt-5", "/gpt-5/7/3", "admitted", Some("0.000039")),
        ("free", "/free/1000/1000", "admitted", Some("0.00")),
        // The answer states no number of tokens: what was reserved counts.
        ("gpt-5", "/gpt-5/none/none", "admitted", Some("0.00012")),
        ("gpt-5", "/gpt-5/0/2000", "admitted", Some("0.02")),
        ("gpt-5", "/gpt-5/7/3", "refused", None),
        ("gpt-5", "/other/7/3", "admitted", None),
    ];
    for format in ["json", "text"] {
        let gateway = Gateway::start_logging(&yaml, format);
        for (count, (asked, path, ..)) in wanted.iter().enumerate() {
            ask(&mut gateway.client(), asked, path);
            // The next one is decided when this one is settled.
            gateway.access_text(count + 1);
        }
        let text = gateway.access_text(wanted.len());
        for (line, (_, path, outcome, spent)) in text.lines().zip(wanted) {
            assert!(line.contains(path) && line.contains(outcome), "{path}: {line}");
            let before = if format == "json" { "\"spent\":" } else { " spent=" };
            let found =
                line.split_once(before).and_then(|(_, rest)| rest.split([',', '}', ' ']).next());
            assert_eq!(found, spent, "{path}: {line}");
        }
    }
}

/// Nothing is counted then, so no amount is told.
#[test]
fn the_access_log_has_no_cost_of_what_passes_while_the_store_is_away() {
    let origin = model();
    let mut redis = Redis::start(Options::default());
    let policy = format!(
        "key: ip, limit: 1 usd/day, algorithm: fixed_window, on_store_failure: allow, {COST}"
    );
    let store = format!("store: {{ redis: {{ url: \"{}\", timeout: 2s }} }}", redis.url());
    let gateway = Gateway::limiting_with(&origin, &policy, &format!("{PRICES}{store}\n"));
    let last = |count: usize| gateway.access_lines(count).swap_remove(count - 1);
    assert_eq!(ask(&mut gateway.client(), "gpt-5", "/gpt-5/7/3").status, 200);
    assert_eq!(last(1)["spent"].as_f64(), Some(0.000_039));
    redis.kill();
    let mut asked = 1;
    eventually("the policy admits without the store", || {
        asked += 1;
        let status = ask(&mut gateway.client(), "gpt-5", "/gpt-5/7/3").status;
        let line = last(asked);
        let is_open = status == 200 && line["outcome"] == "failed_open";
        assert!(!is_open || line.get("spent").is_none(), "{line}");
        is_open
    });
}

#[test]
fn refusals_and_warnings_of_a_budget_say_what_a_unit_is() {
    let origin = model();
    let policy =
        format!("key: ip, limit: 0.01 usd/day, warn: [80%], algorithm: fixed_window, {COST}");
    let top = format!(
        "{PRICES}admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
         {{ name: r, role: read, token: {TOKEN} }}] }}"
    );
    let gateway = Gateway::limiting_with(&origin, &policy, &top);
    let authorization = format!("Authorization: Bearer {TOKEN}");
    let mut stream = Client::connect(gateway.addresses()[1]);
    stream.send(
        format!(
            "GET /v1/events?topics=budgets HTTP/1.1\r\nHost: gateway.test\r\n{authorization}\r\n\r\n"
        )
        .as_bytes(),
    );
    stream.head();
    assert_eq!(ask(&mut gateway.client(), "gpt-5", "/gpt-5/0/900").status, 200);
    eventually("the log has the warning, in money", || {
        gateway.log().contains("0.009 usd of 0.01 usd")
    });
    let refused = ask(&mut gateway.client(), "gpt-5-dear", "/gpt-5/0/1");
    assert_eq!(refused.status, 429, "{refused:?}");
    let refusals = Client::connect(gateway.addresses()[1]).get("/v1/refusals", &[&authorization]);
    let refusals: serde_json::Value = serde_json::from_str(&refusals.text()).expect("JSON");
    let first = &refusals["items"][0];
    assert_eq!(
        (&first["used"], &first["limit"], &first["unit"]),
        (&9_000.into(), &10_000.into(), &"usd-6".into()),
        "{refusals}"
    );
    let mut events = String::new();
    while !events.contains("event: budgets") || !events.contains("\"unit\":\"usd-6\"") {
        let chunk = stream.chunk().expect("a chunk").expect("the stream goes on");
        events += &String::from_utf8_lossy(&chunk);
    }
}

/// The cost of a model was that of `unknown` models if a path was spelled in another way that its
/// backend reads as the same.
#[test]
fn a_model_in_a_path_has_one_price_in_every_spelling() {
    let body = "{\"usage\":{\"inputTokens\":1000,\"outputTokens\":1000}}";
    let origin = Origin::answering(move |_| {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n\
             {body}"
        )
    });
    let prices = "prices: { currency: usd, models: { titan: { input: 1_000, output: 10_000 } }, \
                  unknown: { input: 1, output: 1 } }\nruntime: { workers: 1 }";
    let policy = "key: ip, limit: 1000 usd/day, cost: { reserve: {}, settle: { usage: bedrock } }";
    let gateway = Gateway::limiting_with(&origin, policy, prices);
    let paths = [
        "/model/titan/converse",
        "/model%2Ftitan/converse",
        "/model/titan%2Fconverse",
        "/Model/titan/converse",
        "/model/titan;x/converse",
        "/model/titan/converse/;embed",
    ];
    for (count, path) in paths.iter().enumerate() {
        let json = ["Content-Type: application/json"];
        let response = gateway.client().request("POST", path, &json, b"{\"messages\":[]}");
        assert_eq!(response.status, 200, "{path}");
        let line = &gateway.access_lines(count + 1)[count];
        assert_eq!(line["spent"], 11.0, "{path}: {line}");
        assert_eq!(line["model"], "titan", "{path}: {line}");
    }
}
