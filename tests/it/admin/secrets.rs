//! Literal secrets of the file: they are in nothing that leaves the process, whatever is wrong with
//! the file, and a change of one is told without the secret.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{AdminClient, gateway, settles, yaml};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Program, Response, eventually};

/// Every secret of the file has one of these.
const SECRETS: [&str; 2] = ["Hunter2", "0a1b2c3d4e5f"];
const OPERATE: &str = "operate-Hunter2-0123456789abcdef";
const YAML: &str = "Content-Type: application/yaml";

/// A file with a secret in every place of one, as far as they can be used together.
fn file(redis: &Redis) -> String {
    format!(
        "listeners:\n  - address: 127.0.0.1:0\n\
         admin:\n  address: 127.0.0.1:0\n  write_config: true\n  tokens:\n    \
           - {{ name: oncall, role: operate, token: {OPERATE} }}\n    \
           - name: viewer\n      role: read\n      token: \"read-Hunter2-0123456789\"\n\
         check:\n  http:\n    address: 127.0.0.1:0\n    tokens: [{{ token: check-Hunter2-0123456789 }}]\n\
         client:\n  user:\n    jwt:\n      algorithms: [RS256]\n      \
           jwks: http://127.0.0.1:1/keys?key=Hunter2\n\
         store:\n  redis:\n    url: redis://u:Hunter2@127.0.0.1:{}/0\n    secret: 0a1b2c3d4e5f60718293a4b5c6d7e8f9\n\
         policies:\n  each:\n    key: header:x-who\n    limit: 3/day\n    \
           exempt: {{ headers: {{ x-internal: exempt-Hunter2 }} }}\n\
         upstreams:\n  app:\n    endpoints: [http://127.0.0.1:1]\n    \
           health: {{ path: /health?key=Hunter2, interval: 1s }}\n\
         routes:\n  - path: /a\n    headers: {{ x-version: route-Hunter2 }}\n    policies: [each]\n    upstream: app\n    \
           request_headers: {{ set: {{ authorization: Basic Hunter2 }} }}\n  \
           - {{ path: /*, policies: [each], respond: {{ body: ok }} }}\n",
        redis.port()
    )
}

/// What can be wrong with it: a line with a secret is replaced, or the whole.
fn broken(file: &str) -> Vec<String> {
    let with = |old: &str, new: &str| {
        assert!(file.contains(old), "{old}");
        file.replacen(old, new, 1)
    };
    vec![
        with("role: operate, token", "role: admin, token"),
        with("role: operate, token:", "role: operate, tokne:"),
        with("role: operate, token: ", "role: operate, token:"),
        with("role: operate, token: ", "role: operate, token "),
        with("role: operate, token: ", "role: operate, token: \""),
        with("role: operate, token: ", "role: operate, token: *"),
        with("role: operate, token: ", "role: operate, token: !"),
        with("role: operate, token: ", "role: operate, token: x,"),
        with("name: oncall, role: operate, token: ", "oncall: "),
        with("{ name: oncall, role: operate, token: ", "{ "),
        with("      token: \"read", "     token: \"read"),
        with("      token: \"read", "      token: 'read"),
        with("tokens: [{ token: check", "tokens: [{ policys: [none], token: check"),
        with("tokens: [{ token: check-Hunter2-0123456789 }]", "tokens: check-Hunter2-0123456789"),
        with("jwks: http://", "jwks: ftp://"),
        with("jwks: http://127.0.0.1:1", "jwks: http://127.0.0.1:port"),
        with("url: redis://u", "url: rediss//u"),
        with("url: redis://u:Hunter2@", "url: redis://Hunter2@u@:x"),
        with("secret: 0a", "secrets: 0a"),
        with("secret: 0a", "secret: x0a"),
        with("headers: { x-internal: exempt", "headers: { x-internal:exempt"),
        with("headers: { x-internal: ", "headers: { \"x internal\": "),
        with("path: /health", "path: health"),
        with("x-version: route", "x-version: \"\\u0007 route"),
        with("set: { authorization: Basic", "set: { authorization: Basic:"),
        with("routes:", "route:"),
        with("policies: [each]\n", "policies: [none]\n"),
        format!("{file}\nx: {{ y: [\n"),
        format!("{file}admin: {{ token: Hunter2 }}\n"),
        file.replace(": ", ":"),
        file.chars().filter(|c| *c != '\n').collect(),
    ]
}

/// Everything that the gateway tells operators.
fn told(client: &AdminClient) -> String {
    let paths = [
        "/v1/status",
        "/v1/events",
        "/v1/config",
        "/v1/config?view=effective",
        "/v1/audit",
        "/v1/nodes",
        "/v1/policies",
        "/v1/upstreams",
        "/metrics",
        "/readyz",
    ];
    let answers = paths.map(|path| {
        // A credential has 50 calls a second.
        thread::sleep(Duration::from_millis(25));
        let answer = client.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        format!("{path}\n{}", answer.text())
    });
    answers.join("\n")
}

/// All values in Redis.
fn stored(redis: &Redis) -> String {
    let keys = redis.cli(&["--scan"]);
    let value = |key: &str| match redis.cli(&["TYPE", key]).trim() {
        "hash" => redis.cli(&["HGETALL", key]),
        "string" => redis.cli(&["GET", key]),
        _ => redis.cli(&["DUMP", key]),
    };
    keys.lines().map(|key| format!("{key}\n{}\n", value(key))).collect()
}

fn hold(what: &str, text: &str) {
    let is_shown = |line: &&str| SECRETS.iter().any(|secret| line.contains(secret));
    let shown: Vec<&str> = text.lines().filter(is_shown).collect();
    assert!(shown.is_empty(), "{what}:\n{}", shown.join("\n"));
}

#[test]
fn no_secret_of_the_file_leaves_the_process_whatever_is_wrong_with_the_file() {
    let redis = Redis::start(Options::default());
    redis.cli(&["ACL", "SETUSER", "u", "on", ">Hunter2", "+@all", "~*", "&*"]);
    let file = file(&redis);
    let gateway = Gateway::start(&file);
    let address = *gateway.addresses().last().expect("the admin listener is the last");
    let client = AdminClient { address, token: Some(OPERATE.to_owned()), is_probe: false };
    for path in ["/a?key=value", "/b"] {
        gateway.client().get(path, &["X-Who: ann", "X-Version: route-Hunter2"]);
    }
    settles("the node has a record", || stored(&redis).contains("config"));
    for (number, text) in broken(&file).iter().enumerate() {
        gateway.rewrite(text);
        let failed = || gateway.log().matches("not reloaded").count();
        eventually("the reload fails", || failed() > number);
        let checked = client.send("POST", "/v1/config/check", &[YAML], text);
        let put = client.send("PUT", "/v1/config?write=true", &[YAML, "If-Match: *"], text);
        for answer in [checked, put] {
            assert_eq!(answer.status, 422, "{text}\n{}", answer.text());
            hold(text, &answer.text());
        }
        settles("the status tells it", || {
            client.get("/v1/status").text().contains("reload_failed")
        });
        hold(text, &told(&client));
        hold(text, &gateway.log());
    }
    gateway.reload(&file.replace("3/day", "4/day"));
    hold("after a good reload", &told(&client));
    hold("the log", &gateway.log());
    hold("the access log", &fs::read_to_string(gateway.access_log()).unwrap_or_default());
    hold("Redis", &stored(&redis));
}

/// A warning at a good start shows the line that it is about.
#[test]
fn warnings_and_mistakes_at_a_start_have_no_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.yaml");
    let route = "{ path: /*, headers: { x-key: Hunter2 }, respond: { body: ok } }";
    let warned = format!("listeners: [{{ address: 127.0.0.1:0 }}]\nroutes: [{route}, {route}]\n");
    for (text, expected) in [
        (warned.clone(), "can never match"),
        (warned.replace("/*", "x"), "path"),
        (warned.replace("Hunter2 }", "Hunter2 ]"), "values are not shown"),
    ] {
        fs::write(&path, &text).expect("a file");
        let path = path.to_str().expect("UTF-8");
        for command in ["check", "run"] {
            // A file that can run would run.
            if command == "run" && text == warned {
                continue;
            }
            let output = Program::run(&[command, "-c", path]);
            let said = output.stderr;
            assert!(said.contains(expected), "{said}");
            hold(&text, &said);
        }
    }
}

fn put(client: &AdminClient, target: &str, body: &str) -> Response {
    client.send("PUT", target, &[YAML, "If-Match: *"], body)
}

#[test]
fn a_change_of_secrets_alone_is_told_without_them() {
    let gateway = gateway("", "write_config: true");
    let client = AdminClient::new(&gateway, super::OPERATE);
    let file = fs::read_to_string(gateway.file()).expect("it is there");
    let other = file.replace(super::READ, "read-Hunter2-0123456789");
    let expected = json!([{ "at": "/admin/tokens/1/token", "before": "***", "after": "***" }]);
    let checked = client.send("POST", "/v1/config/check", &[YAML], &other).json();
    assert_eq!(checked["changes"], expected);
    let done = put(&client, "/v1/config?write=true", &other);
    assert_eq!((done.status, &done.json()["changes"]), (200, &expected), "{}", done.text());
    let entry = client.get("/v1/audit?limit=1").json()["items"][0].clone();
    assert_eq!(entry["after"]["at"], json!(["/admin/tokens/1/token"]), "{entry}");
    assert_eq!(entry["before"]["digest"], entry["after"]["digest"], "it is without secrets");
    let keyed = |side: &str| entry[side]["keyed_digest"].as_str().map(str::to_owned);
    assert!(keyed("before").is_some() && keyed("before") != keyed("after"), "{entry}");
    // Back again: the digest is that of before.
    assert_eq!(put(&client, "/v1/config?write=true", &file).status, 200);
    let back = client.get("/v1/audit?limit=1").json()["items"][0].clone();
    assert_eq!(back["after"]["keyed_digest"].as_str(), keyed("before").as_deref());
    hold("the log", &gateway.log());
}

/// A single file that is mounted, as with `subPath` in Kubernetes, cannot be replaced.
#[test]
fn a_put_whose_file_cannot_be_replaced_changes_nothing() {
    let file = yaml("", "write_config: true");
    let gateway = Gateway::start_mounted(&file);
    let client = AdminClient::new(&gateway, super::OPERATE);
    let more = file.replace("write_config: true", "reveal_keys: true, write_config: false");
    let refused = put(&client, "/v1/config?write=true", &more);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("mount its directory"), "{}", refused.text());
    let shown = client.get("/v1/config").json();
    assert_eq!((&shown["generation"], &shown["by"]), (&json!(1), &Value::Null));
    assert_eq!(client.get("/v1/top?policy=each&reveal=true").status, 403);
    assert_eq!(client.get("/v1/status").json()["reasons"], json!([]));
}
