//! Limits of keys and teams in money: a budget for each of them, whatever becomes of the currency.

use super::stored::key;
use super::{Keys, field, id};
use crate::money;
use crate::support::redis::{Options, Redis};
use crate::support::{
    Client, Gateway, Origin, Program, Response, StoreKind, eventually, on_every_store,
};

on_every_store!(a_key_of_the_file_has_a_budget_of_its_own);

const OPERATE: &str = "Authorization: Bearer operate-0123456789abcdef";
const JSON: &str = "Content-Type: application/json";

/// A gateway whose tokens cost ten millionths of the currency. `client` are the fields of
/// `client.keys`.
fn yaml(origin: &Origin, client: &str, prices: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ failures: 100000/minute, keys: {{ {client} }} }}\n\
         prices: {{ {prices}, models: {{ m: {{ input: 0, output: 10 }} }} }}\n\
         policies: {{ team: {{ key: api_key, limit: 1 {currency}/day, algorithm: fixed_window, \
         cost: {{ reserve: {{}}, settle: {{ usage: openai }} }} }} }}\n\
         routes: [{{ path: /*, auth: [api_key], policies: [team], upstream: app }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
         {{ name: a, role: operate, token: operate-0123456789abcdef }}] }}\n",
        origin.address(),
        currency = if prices.contains("usd") { "usd" } else { "eur" },
    )
}

/// A request that uses so many tokens.
fn ask(gateway: &Gateway, key: &str, tokens: u32) -> Response {
    let body = b"{\"model\":\"m\",\"max_tokens\":1,\"messages\":[]}";
    let path = format!("/m/0/{tokens}");
    gateway.client().request("POST", &path, &[JSON, &field(key)], body)
}

/// The limit that an answer names.
fn limit(gateway: &Gateway, key: &str) -> Option<String> {
    let response = ask(gateway, key, 0);
    assert_eq!(response.status, 200, "{response:?}");
    response.field("X-Ratelimit-Limit").map(str::to_owned)
}

fn a_key_of_the_file_has_a_budget_of_its_own(store: StoreKind) {
    let origin = money::model();
    let keys = Keys::new();
    let own = keys.create(&["--limit", "team=0.01 usd"]);
    let unlimited = keys.create(&["--limit", "team=unlimited"]);
    let of_team = keys.create(&[]);
    let other = keys.create(&["--limit", "gone=5 eur"]);
    let text = keys.text().replace(
        &format!("id: \"{}\"", id(&of_team)),
        &format!("id: \"{}\", team: acme", id(&of_team)),
    );
    keys.rewrite(&format!("teams: {{ acme: {{ limits: {{ team: 0.02 usd/day }} }} }}\n{text}"));
    let yaml = yaml(&origin, &format!("file: {:?}", keys.path()), "currency: usd");
    let gateway = store.start(&yaml);
    let limits = [&own, &of_team, &other, &unlimited].map(|key| limit(&gateway, key));
    let limits = limits.each_ref().map(Option::as_deref);
    assert_eq!(limits, [Some("10000"), Some("20000"), Some("1000000"), None]);
    assert_eq!(ask(&gateway, &own, 1000).status, 200);
    eventually("its own budget is used up", || ask(&gateway, &own, 1).status == 429);
    assert_eq!(ask(&gateway, &other, 1).status, 200);
}

/// A file with a mistake against the policies changes nothing while a gateway runs.
#[test]
fn a_limit_in_other_units_is_found_before_it_is_used() {
    let origin = money::model();
    let keys = Keys::new();
    let text = keys.create(&["--limit", "team=0.50 usd"]);
    let good = keys.text();
    let yaml = yaml(&origin, &format!("file: {:?}", keys.path()), "currency: usd");
    let gateway = Gateway::start(&yaml);
    assert_eq!(limit(&gateway, &text).as_deref(), Some("500000"));
    keys.rewrite(&good.replace("0.50 usd", "0.50 eur"));
    let why = "has the limit 0.5 eur, but 0.5 eur cannot be counted: the prices are in usd";
    eventually("the log has the mistake", || gateway.log().contains(why));
    assert_eq!(limit(&gateway, &text).as_deref(), Some("500000"));
    let file = gateway.file();
    let checked = Program::run(&["check", "-c", file.to_str().expect("UTF-8")]);
    assert_eq!(checked.code, Some(2), "{}", checked.stderr);
    assert!(checked.stderr.contains("keys.yaml:2:"), "{}", checked.stderr);
}

#[test]
fn a_stored_limit_stays_the_amount_that_was_written_in_redis() {
    let redis = Redis::start(Options::default());
    stays_the_amount(&format!("redis: {{ url: \"{}\", timeout: 2s }}", redis.url()));
}

#[test]
fn a_stored_limit_stays_the_amount_that_was_written_in_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    stays_the_amount(&format!("keys: {{ path: {:?} }}", directory.path().join("keys.redb")));
}

fn stays_the_amount(store: &str) {
    let origin = money::model();
    let yaml = |prices: &str| format!("{}store: {{ {store} }}\n", yaml(&origin, "", prices));
    let gateway = Gateway::start(&yaml("currency: usd"));
    let run = |arguments: &[&str]| {
        let done = key(&gateway, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.stderr);
        done.stdout.trim_end().to_owned()
    };
    let made = run(&["create", "--store", "--first", "--limit", "team=2.50 usd/day"]);
    let id = id(&made);
    let is_shown = || run(&["show", id]).contains("\"team\": \"2.5 usd/1d\"");
    // Within two seconds after a change, some workers know of it and others do not.
    let has_limit = |key: &str, units: &str| {
        let response = ask(&gateway, key, 0);
        response.status == 200 && response.field("X-Ratelimit-Limit") == Some(units)
    };
    eventually("the key holds", || has_limit(&made, "2500000"));
    refuses_other_units(&gateway, id);
    let text = run(&["rotate", id, "--overlap", "0s"]);
    assert!(is_shown());
    is_imported_again(&yaml("currency: usd"), store, &run(&["export"]), id);

    gateway.reload(&yaml("currency: usd, digits: 2"));
    eventually("fewer digits", || has_limit(&text, "250"));
    assert!(is_shown());

    gateway.reload(&yaml("currency: eur"));
    let mut refused = ask(&gateway, &text, 1);
    eventually("it cannot be counted", || {
        refused = ask(&gateway, &text, 1);
        refused.status == 403
    });
    assert!(refused.text().contains("limit of this API key"), "{}", refused.text());
    eventually("the log has the cause", || {
        let log = gateway.log();
        log.contains("2.5 usd cannot be counted: the prices are in eur") && log.contains(id)
    });
    eventually("the access log names the outcome", || {
        gateway.access_text(1).contains("\"outcome\":\"key_limit_unfit\"")
    });
    let get = |path: &str| Client::connect(gateway.addresses()[1]).get(path, &[OPERATE]).text();
    let counted = "tollgate_decisions_total{outcome=\"key_limit_unfit\"";
    eventually("a metric counts it", || get("/metrics").contains(counted));
    let of_policy = || get("/v1/policies/team").contains("\"key_limit_unfit\":");
    eventually("the figures of the policy have it", of_policy);
    eventually("the status has it", || get("/v1/status").contains("key_limit_unfit"));
    run(&["set", id, "--limit", "team=3 eur"]);
    eventually("the new limit holds", || has_limit(&text, "3000000"));
}

/// Commands and calls store no limit that its policy cannot count.
fn refuses_other_units(gateway: &Gateway, id: &str) {
    for (limit, why) in [
        ("500", "counts money in usd"),
        ("500/day", "write an amount and its currency"),
        ("5 eur/day", "the prices are in usd"),
        ("0.0000001 usd", "more than 6 decimals"),
        ("0 usd", "a limit of 0 admits nothing"),
        ("900000 usd", "the largest limit is 549755.813887 usd"),
    ] {
        let written = format!("team={limit}");
        for arguments in [&["create", "--store"][..], &["set", id]] {
            let refused = key(gateway, &[arguments, &["--limit", &written]].concat());
            assert_eq!(refused.code, Some(2), "{written}: {}", refused.stderr);
            assert!(refused.stderr.contains(why), "{written}: {}", refused.stderr);
        }
        let body = format!("{{\"limits\": {{\"team\": \"{limit}\"}}}}");
        let calls = [
            ("POST", "/v1/keys".to_owned()),
            ("PATCH", format!("/v1/keys/{id}")),
            ("PUT", "/v1/teams/acme".to_owned()),
        ];
        for (method, path) in calls {
            let mut operator = Client::connect(gateway.addresses()[1]);
            let condition = if method == "PUT" { "If-None-Match: *" } else { "If-Match: *" };
            let fields = [OPERATE, JSON, condition];
            let refused = operator.request(method, &path, &fields, body.as_bytes());
            assert_eq!(refused.status, 422, "{method} {path} {body}: {refused:?}");
            assert!(refused.text().contains(why), "{body}: {}", refused.text());
        }
    }
}

/// What is exported from a store can be imported into another one.
fn is_imported_again(yaml: &str, store: &str, exported: &str, id: &str) {
    assert!(exported.contains("2.5 usd/1d"), "{exported}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("other.yaml");
    let other = format!("keys: {{ path: {:?} }}", directory.path().join("other.redb"));
    std::fs::write(&file, yaml.replace(store, &other)).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let imported = Program::given(&["key", "-c", file, "import", "--from", "file"], exported);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let shown = Program::run(&["key", "-c", file, "show", id]);
    assert!(shown.stdout.contains("2.5 usd/1d"), "{}", shown.stdout);
}
