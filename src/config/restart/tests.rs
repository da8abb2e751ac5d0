//! The list of what needs a restart, held to what a running gateway compares.

use super::*;
use crate::config::{Compiled, Config};

/// A file with these sections beside what every file needs.
fn compiled(sections: &str) -> Compiled {
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nroutes: [{{ path: /*, respond: {{ status: 204 }} }}]\n{sections}\n"
    );
    Config::parse(&text, "gateway.yaml", &|_| Some("value".to_owned()))
        .unwrap_or_else(|report| panic!("{sections}: {report}"))
}

/// Whether the program says that the change needs a restart.
fn is_needed(before: &Config, after: &Config) -> bool {
    !before.store.can_become(&after.store)
        || before.telemetry != after.telemetry
        || before.runtime.workers != after.runtime.workers
}

/// The name of a path in the list, or of a path below one. None: it needs no restart.
fn listed(path: &str) -> bool {
    let is_below = |parent: &str| {
        path.strip_prefix(parent).is_some_and(|it| it.is_empty() || it.starts_with('.'))
    };
    SETTINGS.into_iter().any(is_below) && !EXCEPT.into_iter().any(is_below)
}

const URL: &str = "url: \"redis://a\"";

/// For each field of `store`: the section without it, and with it.
fn changes_of_store() -> Vec<(&'static str, String, String)> {
    let change = |path, before: &str, after: &str| {
        (path, format!("store: {before}"), format!("store: {after}"))
    };
    let redis = |path, field: &str| {
        change(
            path,
            &format!("{{ redis: {{ {URL} }} }}"),
            &format!("{{ redis: {{ {URL}, {field} }} }}"),
        )
    };
    let tls = |path, field: &str| {
        let with = |more: &str| format!("{{ redis: {{ url: \"rediss://a\"{more} }} }}");
        change(path, &with(""), &with(&format!(", tls: {{ {field} }}")))
    };
    let sentinel = |path, field: &str| {
        let with = |more: &str| format!("{{ redis: {{ url: \"redis+sentinel://a/m\"{more} }} }}");
        change(
            path,
            &with(", sentinel: { password: other }"),
            &with(&format!(", sentinel: {{ {field} }}")),
        )
    };
    vec![
        change("store.memory.max_keys", "{}", "{ memory: { max_keys: 5 } }"),
        change("store.keys.path", "{}", "{ keys: { path: k } }"),
        change("store.overrides.path", "{}", "{ overrides: { path: k } }"),
        change("store.redis.url", "{}", &format!("{{ redis: {{ {URL} }} }}")),
        change("store.redis.shards", "{}", "{ redis: { shards: [\"redis://a\", \"redis://b\"] } }"),
        redis("store.redis.connections", "connections: 2"),
        redis("store.redis.expected_clients", "expected_clients: 5"),
        redis("store.redis.interval", "interval: 2s"),
        redis("store.redis.lease.length", "lease: { length: 2s }"),
        redis("store.redis.lease.share", "lease: { share: 5% }"),
        redis("store.redis.mode", "mode: write_back"),
        redis("store.redis.password", "password: x"),
        redis("store.redis.password_command", "password_command: [/bin/true]"),
        redis(
            "store.redis.password_lifetime",
            "password_command: [/bin/true], password_lifetime: 55m",
        ),
        redis("store.redis.prefix", "prefix: other"),
        change(
            "store.redis.read_from",
            "{ redis: { url: \"redis+cluster://a,b\" } }",
            "{ redis: { url: \"redis+cluster://a,b\", read_from: replica } }",
        ),
        redis("store.redis.secret", "secret: \"00112233445566778899aabbccddeeff\""),
        sentinel("store.redis.sentinel.password", "password: x"),
        sentinel("store.redis.sentinel.username", "username: x, password: other"),
        redis("store.redis.timeout", "timeout: 50ms"),
        tls("store.redis.tls.server_name", "server_name: a.example"),
        redis("store.redis.username", "username: x, password: x"),
    ]
}

#[test]
fn the_list_is_what_the_program_compares() {
    let mut changes = changes_of_store();
    for (path, section) in [
        ("runtime.workers", "runtime: { workers: 3 }"),
        ("runtime.drain", "runtime: { drain: 3s }"),
        ("telemetry.log.level", "telemetry: { log: { level: debug } }"),
        ("telemetry.access_log", "telemetry: { access_log: false }"),
        ("telemetry.metrics.max_series", "telemetry: { metrics: { max_series: 500 } }"),
    ] {
        changes.push((path, String::new(), section.to_owned()));
    }
    for (path, before, after) in changes {
        let before = compiled(&before);
        let after = compiled(&after);
        let needed = is_needed(&before.config, &after.config);
        assert_eq!(listed(path), needed, "{path}");
        let differs = digest(&before.document.written) != digest(&after.document.written);
        assert_eq!(differs, needed, "the digest of {path}");
    }
}

/// A new field of the store is in the table above, so it is known whether it needs a restart.
#[test]
fn every_field_of_the_store_is_compared() {
    let page = include_str!("../../../docs/configuration.md");
    let changes = changes_of_store();
    let mut section = "";
    let mut count = 0;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            section = name.trim_matches('`');
        }
        let Some((field, rest)) = line.strip_prefix("| `").and_then(|it| it.split_once('`')) else {
            continue;
        };
        let is_store = section == "store" || section.starts_with("store.");
        // The table of a section has its fields. The files of TLS cannot be named without files.
        let has_fields = rest.contains("[section](#store") && !rest.contains("text, or");
        if !is_store || has_fields || section == "store.redis.tls" {
            continue;
        }
        count += 1;
        let path = format!("{section}.{field}");
        let is_known = |it: &str| it == path || it.starts_with(&format!("{path}."));
        assert!(changes.iter().any(|(it, ..)| is_known(it)), "{path} is not in the table");
    }
    assert!(count > 15, "only {count} fields are found");
}

#[test]
fn limits_and_secrets_do_not_change_the_digest() {
    let of = |sections: &str| digest(&compiled(sections).document.written);
    let first = of("policies: { p: { key: ip, limit: 1/s } }");
    assert_eq!(first.len(), 32);
    assert_eq!(first, of("policies: { p: { key: ip, limit: 2/s } }"));
    let redis =
        |password: &str| of(&format!("store: {{ redis: {{ {URL}, password: {password} }} }}"));
    assert_eq!(redis("a"), redis("b"));
    assert_ne!(redis("a"), first);
    // Addresses of the admin listener stay until a restart. Its tokens do not.
    let admin = |port: u16, token: &str| {
        of(&format!("admin: {{ address: \"127.0.0.1:{port}\", token: {token} }}"))
    };
    let token = "0123456789abcdef";
    assert_eq!(admin(1, token), admin(1, "fedcba9876543210"));
    assert_ne!(admin(1, token), admin(2, token));
}
