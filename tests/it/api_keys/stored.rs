//! API keys in Redis and in a file of redb: changed by the command line while gateways run.

use std::thread;
use std::time::Duration;

use super::{field, id};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Output, Program, eventually, now};

const READ: &str = "read-0123456789abcdef";
/// The time within which a change is in effect on all nodes.
const IN_EFFECT: Duration = Duration::from_secs(2);
const ROUTES: &str =
    "routes: [{ path: /*, auth: [api_key], policies: [each], respond: { body: ok } }]";

pub(super) fn node(store: &str, client: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ failures: 100000/minute, keys: {{ {client} }} }}\n\
         store: {{ {store} }}\n\
         policies: {{ each: {{ key: api_key, limit: 100000/day }} }}\n{ROUTES}\n"
    ))
}

pub(super) fn in_redis(redis: &Redis) -> String {
    format!("redis: {{ url: \"{}\", timeout: 2s }}", redis.url())
}

pub(super) fn key(gateway: &Gateway, arguments: &[&str]) -> Output {
    let file = gateway.file();
    let file = file.to_str().expect("the path is UTF-8");
    Program::run(&[&["key", "-c", file], arguments].concat())
}

/// The text of a new key.
pub(super) fn create(gateway: &Gateway, arguments: &[&str]) -> String {
    let made = key(gateway, &[&["create", "--store"], arguments].concat());
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    made.stdout.trim_end().to_owned()
}

pub(super) fn status(gateway: &Gateway, key: &str) -> u16 {
    gateway.client().get("/", &[&field(key)]).status
}

#[test]
fn a_key_of_a_node_holds_on_all_and_ends_on_all_within_two_seconds_of_its_revocation() {
    let redis = Redis::start(Options::default());
    let gateways = [(); 2].map(|()| node(&in_redis(&redis), "prefix: acme"));
    let text = create(&gateways[0], &["--first", "--team", "acme"]);
    assert!(text.starts_with("acme_"), "{text}");
    for gateway in &gateways {
        eventually("the key holds", || status(gateway, &text) == 200);
    }
    let revoked = key(&gateways[1], &["revoke", id(&text)]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    let ended = now();
    while ended.elapsed() < IN_EFFECT * 2 {
        for gateway in &gateways {
            let begun = ended.elapsed();
            let status = status(gateway, &text);
            assert!(status == 401 || begun < IN_EFFECT, "{status} after {begun:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    let shown = key(&gateways[0], &["show", id(&text)]);
    assert!(shown.stdout.contains("\"state\": \"revoked\""), "{}", shown.stdout);
}

#[test]
fn known_keys_pass_while_redis_is_away_and_an_emptied_redis_makes_no_key_unknown() {
    let redis = Redis::start(Options::default());
    let gateway = node(&in_redis(&redis), "stale: 1h");
    let [known, other] = [&["--first"][..], &[]].map(|it| create(&gateway, it));
    eventually("the key holds", || status(&gateway, &known) == 200);
    redis.cli(&["FLUSHALL"]);
    assert_eq!(status(&gateway, &other), 503);
    assert_eq!(status(&gateway, &known), 200);
    let refused = key(&gateway, &["create", "--store"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("tollgate key import"), "{}", refused.stderr);
    redis.stop();
    eventually("unknown keys are away", || status(&gateway, &other) == 503);
    assert_eq!(status(&gateway, &known), 200);
}

#[test]
fn both_secrets_of_a_rotation_share_a_counter_until_the_old_one_ends() {
    let redis = Redis::start(Options::default());
    let gateway = node(&in_redis(&redis), "");
    let old = create(&gateway, &["--first"]);
    let rotated = key(&gateway, &["rotate", id(&old), "--overlap", "5s"]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    let new = rotated.stdout.trim_end();
    assert_ne!(old, new);
    let get = |key: &str| gateway.client().get("/", &[&field(key)]);
    let remaining = |key: &str| get(key).number("X-Ratelimit-Remaining");
    // A worker that knows the record before the rotation reads it again within two seconds.
    let mut response = get(new);
    eventually("the new secret holds", || {
        response = get(new);
        response.status == 200
    });
    let before = response.number("X-Ratelimit-Remaining");
    eventually("the old secret ends", || status(&gateway, &old) == 401);
    let ended = get(&old);
    let told = String::from_utf8_lossy(&ended.body);
    assert!(told.contains("expired"), "{told}");
    assert!(remaining(new) < before, "one counter");
    let third = key(&gateway, &["rotate", id(&old), "--overlap", "0s"]);
    assert_eq!(third.code, Some(0), "{}", third.stderr);
}

#[test]
fn no_secret_is_in_redis_or_in_the_log() {
    let redis = Redis::start(Options::default());
    let gateway = node(&in_redis(&redis), "");
    let text = create(&gateway, &["--first", "--name", "acme-prod"]);
    eventually("the key holds", || status(&gateway, &text) == 200);
    let (_, secret) = text.rsplit_once('_').expect("PREFIX_ID_SECRET");
    let secret = &secret[..43];
    let mut dump = String::new();
    for name in redis.cli(&["--scan"]).lines() {
        dump.push_str(name);
        let kind = redis.cli(&["TYPE", name]);
        dump.push_str(&match kind.trim() {
            "string" => redis.cli(&["GET", name]),
            "hash" => redis.cli(&["HGETALL", name]),
            "set" => redis.cli(&["SMEMBERS", name]),
            "zset" => redis.cli(&["ZRANGE", name, "0", "-1"]),
            other => panic!("{name} is a {other}"),
        });
    }
    assert!(dump.contains("acme-prod"), "{dump}");
    assert!(!dump.contains(secret) && !gateway.log().contains(secret));
}

#[test]
fn keys_are_in_a_file_without_redis_and_move_by_export_and_import() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = |name: &str| format!("keys: {{ path: {:?} }}", directory.path().join(name));
    let gateway = node(&store("one.redb"), "foreign: true");
    let text = create(&gateway, &["--team", "acme"]);
    eventually("the key holds", || status(&gateway, &text) == 200);
    let exported = key(&gateway, &["export"]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    assert!(!exported.stdout.contains(&text));
    let other = node(&store("two.redb"), "");
    assert_eq!(status(&other, &text), 401);
    let file = other.file();
    let imported = Program::given(
        &["key", "-c", file.to_str().expect("UTF-8"), "import", "--from", "file"],
        &exported.stdout,
    );
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    eventually("the imported key holds", || status(&other, &text) == 200);
    let bytes = std::fs::read(directory.path().join("one.redb")).expect("the file");
    let (_, secret) = text.rsplit_once('_').expect("PREFIX_ID_SECRET");
    let secret = &secret.as_bytes()[..43];
    assert!(!bytes.windows(43).any(|it| it == secret));
}

/// Without it, the request would be one of an unknown key, by the counter of its address.
#[test]
fn an_explanation_knows_the_keys_of_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ keys: {{ store: true }} }}\n\
         store: {{ keys: {{ path: \"{}\" }} }}\n\
         policies: {{ each: {{ key: api_key, limit: 3/day }} }}\n{ROUTES}\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: r, role: read, token: {READ} }}] }}\n",
        directory.path().join("keys.redb").display()
    ));
    let text = create(&gateway, &["--first", "--limit", "each=20/day"]);
    eventually("the key holds", || status(&gateway, &text) == 200);
    let header = field(&text);
    let explained = |from: &[&str]| {
        let asked = ["--json", "-H", &header, "http://gateway.test/"];
        let all = [&["explain"], from, &asked[..]].concat();
        let output = Program::command().args(all).env("TOLLGATE_ADMIN_TOKEN", READ).output();
        let output = output.expect("the program runs");
        let told = serde_json::from_slice::<serde_json::Value>(&output.stdout);
        told.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    let admin = format!("http://{}", gateway.addresses()[1]);
    let told = explained(&["--admin", &admin]);
    assert_eq!(told["decision"], "admitted", "{told}");
    // Its own cost is a part of what is used.
    let policy = &told["policies"][0];
    assert_eq!(
        [&policy["limit"], &policy["used"], &policy["limit_from"]],
        [&serde_json::json!(20), &serde_json::json!(2), &serde_json::json!("key")]
    );
    let file = gateway.file();
    let offline = explained(&["-c", file.to_str().expect("UTF-8")]);
    let warnings = offline["warnings"].to_string();
    assert!(warnings.contains("API keys in the store are not read"), "{offline}");
}
