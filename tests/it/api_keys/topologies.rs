//! Keys in each form in which Redis is operated.

use super::id;
use super::stored::{create, key, node, status};
use crate::support::redis::{Cluster, Options, Redis, Sentinels, shared_cluster, shared_shards};
use crate::support::{Gateway, Output, eventually};

/// The first keys of a store, on two nodes.
fn begin(store: &str) -> ([Gateway; 2], Vec<String>) {
    let gateways = [(); 2].map(|()| node(&format!("redis: {{ {store}, timeout: 2s }}"), ""));
    // Keys in several parts, so that several servers have some.
    let first: &[&str] = &["--first", "--team", "acme"];
    let arguments = |number| if number == 0 { first } else { &first[1..] };
    let keys = (0..8).map(|number| create(&gateways[0], arguments(number))).collect();
    (gateways, keys)
}

fn good(output: &Output) -> String {
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout.trim_end().to_owned()
}

/// Keys hold on all nodes, are listed, rotated and revoked.
fn hold(gateways: &[Gateway; 2], keys: &[String]) {
    for gateway in gateways {
        for key in keys {
            eventually("a key holds", || status(gateway, key) == 200);
        }
    }
    let listed = good(&key(&gateways[1], &["list", "--team", "acme", "--state", "active"]));
    assert!(keys.iter().all(|key| listed.contains(id(key))), "{listed}");
    let new = good(&key(&gateways[0], &["rotate", id(&keys[0]), "--overlap", "0s"]));
    good(&key(&gateways[0], &["revoke", id(&keys[1])]));
    for gateway in gateways {
        eventually("the new secret holds", || status(gateway, &new) == 200);
        eventually("the old one has ended", || status(gateway, &keys[0]) == 401);
        eventually("the other is revoked", || status(gateway, &keys[1]) == 401);
        assert_eq!(status(gateway, &keys[2]), 200);
    }
}

#[test]
fn in_a_cluster_also_after_slots_have_moved() {
    let (gateways, keys) =
        begin(&format!("url: \"{}\", prefix: keys-cluster", shared_cluster().url()));
    hold(&gateways, &keys);
    let cluster = Cluster::start();
    let (gateways, keys) = begin(&format!("url: \"{}\"", cluster.url()));
    cluster.reshard(4000);
    hold(&gateways, &keys);
}

/// The sign of a part had moved, and the records not yet. The gateways asked the new node for all of
/// them, so they did not know valid keys, and no list had them.
#[test]
fn in_a_cluster_also_while_a_slot_moves() {
    let cluster = Cluster::start();
    let (gateways, keys) = begin(&format!("url: \"{}\"", cluster.url()));
    let names: Vec<String> =
        cluster.masters().map(|it| it.cli(&["KEYS", "tollgate:k:*"])).collect();
    let mut signs: Vec<String> = Vec::new();
    for key in &keys {
        let record = names.iter().flat_map(|it| it.lines()).find(|name| name.ends_with(id(key)));
        let record = record.expect("the record of a key");
        signs.push(record.replace(id(key), "sign"));
    }
    signs.sort_unstable();
    signs.dedup();
    signs.iter().for_each(|sign| cluster.begin_to_move(sign));
    let listed = good(&key(&gateways[1], &["list", "--team", "acme"]));
    assert!(keys.iter().all(|key| listed.contains(id(key))), "{listed}");
    for gateway in &gateways {
        for key in &keys {
            eventually("the key holds", || {
                let said = status(gateway, key);
                assert_ne!(said, 401, "{key}");
                said == 200
            });
        }
    }
}

#[test]
fn on_servers_that_do_not_know_of_each_other() {
    let urls = shared_shards().each_ref().map(|shard| format!("\"{}\"", shard.url()));
    let (gateways, keys) = begin(&format!("shards: [{}], prefix: keys-shards", urls.join(", ")));
    hold(&gateways, &keys);
    let kept = shared_shards().each_ref().map(|it| it.cli(&["KEYS", "keys-shards:k:*"]).len());
    assert!(kept.iter().all(|keys| *keys > 0), "{kept:?}");
}

#[test]
fn behind_sentinels_also_after_a_failover() {
    let mut sentinels = Sentinels::start();
    let (gateways, keys) = begin(&format!("url: \"{}\"", sentinels.url()));
    for gateway in &gateways {
        eventually("a key holds", || keys.iter().all(|key| status(gateway, key) == 200));
    }
    eventually("the replica has all keys", || {
        let count = |server: &Redis| server.cli(&["KEYS", "tollgate:k:*:ids"]).lines().count();
        count(&sentinels.replica) == count(&sentinels.master)
    });
    sentinels.master.kill();
    assert!(keys.iter().all(|key| status(&gateways[0], key) == 200), "known keys are trusted");
    sentinels.wait_for_promotion();
    eventually("a key is made", || {
        key(&gateways[0], &["create", "--store", "--team", "acme"]).code == Some(0)
    });
    hold(&gateways, &keys);
}

/// The rules of the user in docs/redis.md, with those for API keys.
fn rules() -> String {
    let text = std::fs::read_to_string("docs/redis.md").expect("tests run in the project");
    let rules = text.lines().find_map(|line| line.strip_prefix("ACL SETUSER "));
    let of_keys = text.lines().find(|line| line.starts_with("- For [API keys]"));
    let of_keys = of_keys.and_then(|line| line.split('`').nth(1)).expect("the rules for API keys");
    format!("{} {of_keys}", rules.expect("it shows ACL SETUSER"))
}

#[test]
fn by_a_user_who_may_do_no_more_than_the_documentation_says() {
    let lines = vec![format!("user {}", rules())];
    let redis = Redis::start(Options { password: Some("admin"), lines, ..Options::default() });
    let store = format!("url: \"redis://tollgate:secret@127.0.0.1:{}\"", redis.port());
    let (gateways, keys) = begin(&store);
    hold(&gateways, &keys);
    let denied = redis.cli(&["ACL", "LOG"]);
    assert!(!denied.contains("reason\ncommand"), "{denied}");
    // Each of the rules for API keys is needed, and the error names them.
    redis.cli(&["ACL", "SETUSER", "tollgate", "-zrangebylex"]);
    let refused = key(&gateways[0], &["list"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("+zadd +zrem +zrangebylex"), "{}", refused.stderr);
    redis.cli(&["ACL", "SETUSER", "tollgate", "-zadd"]);
    let refused = key(&gateways[0], &["create", "--store"]);
    assert!(refused.stderr.contains("+zadd +zrem +zrangebylex"), "{}", refused.stderr);
    assert_eq!(status(&gateways[0], &keys[2]), 200, "requests need none of them");
}
