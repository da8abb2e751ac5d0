//! Digests of what must be equal on all nodes that share a store: a difference makes them count
//! the same client differently.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::model::Config;
use super::shown;
use crate::patches::FORMAT;

/// The format of the digests. Another choice of sections or fields is another format.
const VERSION: &str = "2";

/// The sections that are compared.
const SECTIONS: [&str; 6] = ["check", "client", "defaults", "policies", "routes", "store"];

/// The fields of these sections that may differ: how a node reaches the store, and what it keeps
/// in its own memory.
const OF_ONE_NODE: [&str; 12] = [
    "/store/memory",
    "/store/overrides",
    "/store/redis/url",
    "/store/redis/username",
    "/store/redis/password",
    "/store/redis/password_command",
    "/store/redis/password_lifetime",
    "/store/redis/sentinel",
    "/store/redis/tls",
    "/store/redis/timeout",
    "/store/redis/connections",
    "/store/redis/read_from",
];

/// The digests by the names of sections, with the format. `expanded`: the file with the values of
/// `${...}`, without secrets.
pub fn digests(expanded: &Json, config: &Config) -> BTreeMap<String, String> {
    let mut shared = expanded.clone();
    OF_ONE_NODE.iter().for_each(|pointer| remove(&mut shared, pointer));
    let grpc = &expanded["check"]["grpc"];
    let rules = ["domains", "envoy", "envoy_config"].map(|it| (it.to_owned(), grpc[it].clone()));
    shared["check"] = Json::Object(rules.into_iter().collect());
    let redis = config.store.redis.as_ref();
    if let Some(secret) = redis.and_then(|redis| redis.secret.as_ref()) {
        // Under another secret, nodes have other names for the same client. The digest says no
        // more of the secret than the names that are in Redis.
        let mut digest = secret.digest();
        digest.value(b"the secret of these nodes");
        shared["store"]["redis"]["secret"] = json!(format!("{:032x}", digest.finish()));
    }
    prune(&mut shared);
    let digest = |name: &str| (name.to_owned(), shown::digest(&shared[name]));
    let mut digests: BTreeMap<_, _> = SECTIONS.into_iter().map(digest).collect();
    digests.insert(FORMAT.to_owned(), VERSION.to_owned());
    digests
}

fn remove(value: &mut Json, pointer: &str) {
    let Some((section, field)) = pointer.rsplit_once('/') else { return };
    if let Some(Json::Object(fields)) = value.pointer_mut(section) {
        fields.remove(field);
    }
}

/// Removes sections that say nothing, so that they are equal to those that are not there.
fn prune(value: &mut Json) {
    match value {
        Json::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, it| !it.is_null() && it.as_object().is_none_or(|it| !it.is_empty()));
        }
        Json::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patches::ConfigIdentity;

    fn identity(text: &str) -> ConfigIdentity {
        let env = |name: &str| (name == "LIMIT").then(|| "100/minute".to_owned());
        let compiled = Config::parse(text, "gateway.yaml", &env).expect("it has no mistake");
        compiled.config.definitions.identity.clone()
    }

    const FILE: &str = "listeners: [{ address: 0.0.0.0:80 }]\n\
        client: { ipv6_prefix: 48 }\n\
        store:\n  \
          memory: { max_keys: 1000 }\n  \
          redis: { url: \"redis://u:hunter2@r:6379/0\", timeout: 20ms, prefix: a, secret: 00112233445566778899aabbccddeeff }\n\
        policies: { p: { key: ip, limit: \"${LIMIT}\" } }\n\
        defaults: { policies: [p] }\n\
        routes: [{ path: /*, respond: { body: ok } }]\n\
        check:\n  \
          grpc: { address: 127.0.0.1:81, domains: { d: [{ match: [remote_address], policy: p }] } }\n\
        telemetry: { access_log: { path: /var/log/a } }\n\
        admin: { address: 127.0.0.1:9901, token: 0123456789abcdef }\n";

    #[test]
    fn what_may_differ_is_not_compared() {
        let own = identity(FILE);
        for (from, to) in [
            ("0.0.0.0:80", "10.0.0.2:80"),
            ("/var/log/a", "/var/log/b"),
            ("127.0.0.1:9901", "127.0.0.1:9902"),
            ("127.0.0.1:81", "127.0.0.1:82"),
            ("redis://u:hunter2@r:6379/0", "redis://r.zone-b"),
            ("redis://u:hunter2@r:6379/0\"", "redis://r\", username: u, password: hunter2"),
            (
                "redis://u:hunter2@r:6379/0\"",
                "redis://r\", password_command: [/bin/token, a], password_lifetime: 55m",
            ),
            ("timeout: 20ms", "timeout: 50ms, connections: 4"),
            ("  memory: { max_keys: 1000 }\n", ""),
            ("max_keys: 1000", "max_keys: 2000"),
            ("\"${LIMIT}\"", "100/minute"),
            ("key: ip, limit: \"${LIMIT}\"", "limit: \"${LIMIT}\", key: ip"),
        ] {
            let other = identity(&FILE.replacen(from, to, 1));
            assert_eq!(own.differs_in(&other), Some(vec![]), "{from}");
        }
        let absent = identity(&FILE.replacen("client: { ipv6_prefix: 48 }\n", "", 1));
        let empty = identity(&FILE.replacen("{ ipv6_prefix: 48 }", "{}", 1));
        assert_eq!(absent.differs_in(&empty), Some(vec![]));
    }

    #[test]
    fn sections_that_differ_are_named() {
        let own = identity(FILE);
        for (from, to, section) in [
            ("\"${LIMIT}\"", "101/minute", "policies"),
            ("ipv6_prefix: 48", "ipv6_prefix: 64", "client"),
            ("client: { ipv6_prefix: 48 }\n", "", "client"),
            ("prefix: a", "prefix: b", "store"),
            ("aabbccddeeff", "aabbccddeefe", "store"),
            (", secret: 00112233445566778899aabbccddeeff", "", "store"),
            ("path: /*", "path: /x/*", "routes"),
            ("defaults: { policies: [p] }", "defaults: { policies: [] }", "defaults"),
            ("match: [remote_address]", "match: [generic_key]", "check"),
        ] {
            let other = identity(&FILE.replacen(from, to, 1));
            assert_eq!(own.differs_in(&other), Some(vec![section]), "{from}");
        }
        let sections: Vec<&str> = own.sections().collect();
        assert_eq!(sections, SECTIONS);
    }
}
