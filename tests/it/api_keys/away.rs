//! What weakens the promises of stored keys is in the log, the status and the metrics.

use std::thread;
use std::time::Duration;

use super::stored::{create, in_redis, key, status};
use super::{Keys, id};
use crate::support::redis::{Options, Redis};
use crate::support::{Client, Gateway, Program, Response, eventually};

const OPERATE: &str = "Authorization: Bearer operate-0123456789abcdef";
const JSON: &str = "Content-Type: application/json";

/// A gateway with an admin listener.
fn gateway(store: &str, client: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ failures: 100000/minute, keys: {{ {client} }} }}\n\
         store: {{ {store} }}\n\
         routes: [{{ path: /*, auth: [api_key], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
         {{ name: a, role: operate, token: operate-0123456789abcdef }}] }}\n"
    ))
}

fn get(gateway: &Gateway, path: &str) -> String {
    Client::connect(gateway.addresses()[1]).get(path, &[OPERATE]).text()
}

/// Waits until the status has this reason or not.
fn reason(gateway: &Gateway, code: &str, is_there: bool) {
    eventually(&format!("{code}: {is_there}"), || {
        thread::sleep(Duration::from_millis(200));
        get(gateway, "/v1/status").contains(code) == is_there
    });
}

/// The value of a series.
fn metric(gateway: &Gateway, series: &str) -> Option<f64> {
    let text = get(gateway, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok())
}

fn is_away(gateway: &Gateway, cause: &str) -> Option<f64> {
    metric(gateway, &format!("tollgate_key_store_away{{cause=\"{cause}\"}}"))
}

#[test]
fn a_store_that_is_away_or_emptied_is_told() {
    let redis = Redis::start(Options::default());
    let gateway = gateway(&in_redis(&redis), "stale: 1h");
    reason(&gateway, "key_store_away", true);
    assert_eq!(is_away(&gateway, "no_sign"), Some(1.0), "no key was made");
    let known = create(&gateway, &["--first"]);
    eventually("the key holds", || status(&gateway, &known) == 200);
    reason(&gateway, "key_store_away", false);
    assert_eq!(
        (is_away(&gateway, "no_sign"), is_away(&gateway, "not_read")),
        (Some(0.0), Some(0.0))
    );
    let other = create(&gateway, &[]);
    redis.cli(&["FLUSHALL"]);
    reason(&gateway, "key_store_away", true);
    assert_eq!(is_away(&gateway, "no_sign"), Some(1.0));
    assert!(get(&gateway, "/v1/status").contains("tollgate key import"));
    assert_eq!((status(&gateway, &known), status(&gateway, &other)), (200, 503));
    create(&gateway, &["--first"]);
    reason(&gateway, "key_store_away", false);
    redis.stop();
    reason(&gateway, "key_store_away", true);
    eventually("it is not read", || is_away(&gateway, "not_read") == Some(1.0));
    assert_eq!((status(&gateway, &known), status(&gateway, &other)), (200, 503));
    redis.cont();
    reason(&gateway, "key_store_away", false);
    eventually("the end is told", || {
        gateway.log().contains("the store of the API keys can be read again")
    });
    let log = gateway.log();
    for told in
        ["has no sign that it has API keys", "cannot be read", "tollgate key create --store"]
    {
        assert!(log.contains(told), "{told}: {log}");
    }
    assert!(!log.contains(&known[17..]), "no secret is in the log");
    for result in ["asked", "stale", "away"] {
        let series = format!("tollgate_key_lookups_total{{result=\"{result}\"}}");
        eventually(result, || metric(&gateway, &series).is_some_and(|count| count > 0.0));
    }
}

/// Known keys were once refused after it.
#[test]
fn a_reload_that_fails_changes_nothing_while_the_store_is_away() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.redb");
    let gateway = gateway(&format!("keys: {{ path: {path:?} }}"), "stale: 1h");
    let known = create(&gateway, &[]);
    eventually("the key holds", || status(&gateway, &known) == 200);
    std::fs::rename(&path, directory.path().join("aside")).expect("a file");
    reason(&gateway, "key_store_away", true);
    let more = format!("listeners: [{{ address: \"{address}\" }}, {{");
    let yaml = std::fs::read_to_string(gateway.file()).expect("a file");
    let yaml =
        yaml.replacen("listeners: [{", &more, 1).replacen("stale: 1h", "on_store_failure: deny", 1);
    std::fs::write(gateway.file(), yaml).expect("a file");
    eventually("it is refused", || gateway.log().contains("another program has this port"));
    assert_eq!(status(&gateway, &known), 200);
}

#[test]
fn a_file_of_keys_that_is_gone_is_told_with_its_cause() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.redb");
    let gateway = gateway(&format!("keys: {{ path: {path:?} }}"), "stale: 1h");
    let known = create(&gateway, &[]);
    eventually("the key holds", || status(&gateway, &known) == 200);
    let aside = directory.path().join("aside");
    std::fs::rename(&path, &aside).expect("a file");
    reason(&gateway, "key_store_away", true);
    assert_eq!(is_away(&gateway, "not_read"), Some(1.0));
    eventually("the log has the cause", || gateway.log().contains("No such file or directory"));
    assert_eq!(status(&gateway, &known), 200);
    std::fs::rename(&aside, &path).expect("a file");
    reason(&gateway, "key_store_away", false);
}

/// A call of an operator.
fn call(gateway: &Gateway, method: &str, path: &str, fields: &[&str], body: &str) -> Response {
    let fields = [&[OPERATE, JSON], fields].concat();
    Client::connect(gateway.addresses()[1]).request(method, path, &fields, body.as_bytes())
}

#[test]
fn a_key_of_the_file_wins_over_the_store_and_that_is_told() {
    let redis = Redis::start(Options::default());
    let keys = Keys::new();
    let text = keys.create(&["--team", "of-the-file"]);
    let id = id(&text);
    let gateway = gateway(&in_redis(&redis), &format!("file: {:?}", keys.path()));
    let path = format!("/v1/keys/{id}");
    let first = call(&gateway, "POST", "/v1/keys", &[], "{\"first\": true}");
    assert_eq!(first.status, 201, "{first:?}");
    reason(&gateway, "key_in_file_and_store", false);
    for (method, path, fields, body) in [
        ("PUT", path.clone(), &["If-None-Match: *"][..], "{}"),
        ("PATCH", path.clone(), &["If-Match: *"], "{\"disabled\": true}"),
        ("DELETE", path.clone(), &[], ""),
        ("POST", format!("{path}/rotate"), &[], "{}"),
    ] {
        let refused = call(&gateway, method, &path, fields, body);
        assert_eq!(refused.status, 409, "{method} {path}: {refused:?}");
        let told = refused.text();
        assert!(told.contains("keys.yaml") && told.contains(id), "{told}");
    }
    let import = format!("{{\"keys\": [{{\"key\": \"{text}\"}}]}}");
    let imported = call(&gateway, "POST", "/v1/keys/import", &[], &import);
    assert!(imported.text().contains("keys.yaml"), "{imported:?}");
    let find = format!("{{\"key\": \"{text}\"}}");
    let found = call(&gateway, "POST", "/v1/keys/find", &[], &find);
    assert_eq!((found.status, found.json()["team"].as_str()), (200, Some("of-the-file")));

    // Keys move from the file into the store on the command line, and are in both for a while.
    let config = gateway.file();
    let config = config.to_str().expect("UTF-8");
    let moved = ["key", "-c", config, "import", "--from", "file"];
    let moved = Program::given(&moved, &keys.text().replace("of-the-file", "of-the-store"));
    assert_eq!(moved.code, Some(0), "{}", moved.stderr);
    reason(&gateway, "key_in_file_and_store", true);
    assert_eq!(metric(&gateway, "tollgate_keys_in_file_and_store"), Some(1.0));
    eventually("the log has it", || {
        let log = gateway.log();
        log.contains("ERROR") && log.contains(id) && log.contains("keys.yaml")
    });
    assert_eq!(status(&gateway, &text), 200);
    let changed = key(&gateway, &["set", id, "--disabled"]);
    assert_eq!(changed.code, Some(1));
    assert!(changed.stderr.contains("keys.yaml"), "{}", changed.stderr);
    let revoked = key(&gateway, &["revoke", id]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    assert!(revoked.stderr.contains("keys.yaml"), "{}", revoked.stderr);
    reason(&gateway, "key_in_file_and_store", false);
    assert_eq!(status(&gateway, &text), 200, "the file has it");
    let other = keys.create(&[]);
    let refused = key(&gateway, &["revoke", super::id(&other)]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("not in the store"), "{}", refused.stderr);
}

#[test]
fn redis_may_have_counters_only() {
    let redis = Redis::start(Options::default());
    let keys = Keys::new();
    let known = keys.create(&["--name", "a"]);
    let client = format!("file: {:?}, store: false", keys.path());
    let gateway = gateway(&in_redis(&redis), &client);
    assert_eq!((status(&gateway, &known), status(&gateway, &super::invented())), (200, 401));
    assert!(!get(&gateway, "/v1/status").contains("key_store_away"));
    let mut operator = Client::connect(gateway.addresses()[1]);
    let refused = operator.request("POST", "/v1/keys", &[OPERATE, JSON], b"{}");
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("client.keys.store is false"), "{}", refused.text());
    let made = key(&gateway, &["create", "--store"]);
    assert_eq!(made.code, Some(2));
    assert!(made.stderr.contains("client.keys.store is false"), "{}", made.stderr);
}
