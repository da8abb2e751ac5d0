//! Sentinels, a cluster and shards: each server that takes part has a line of its own.

use super::{bad, check_store, good};
use crate::support::redis::{Cluster, Options, Redis, Sentinels};
use crate::support::{Reserved, eventually};

#[test]
fn sentinels_their_master_and_its_replica_are_asked() {
    let sentinels = Sentinels::start();
    let master = sentinels.master.port();
    let replica = sentinels.replica.port();
    let store = format!("url: \"{}\", read_from: replica", sentinels.url());
    let found = good(check_store(&store));
    let named = format!("good (Sentinel, names the master 127.0.0.1:{master})");
    assert_eq!(found.matches(&named).count(), 3, "{found}");
    let is_line = |port: u16, kind: &str| {
        found.lines().any(|it| it.contains(&format!(":{port}: good (")) && it.contains(kind))
    };
    assert!(is_line(master, ", master, ") && is_line(replica, ", replica, "), "{found}");
    let other = store.replace("/mymaster", "/another");
    let report = bad(check_store(&other));
    assert_eq!(report.matches("the Sentinels do not know the master").count(), 3, "{report}");
}

#[test]
fn all_masters_of_a_cluster_are_asked_with_their_slots() {
    let cluster = Cluster::start_with(Options::default());
    let store = format!("url: \"{}\", read_from: replica", cluster.url());
    let mut found = String::new();
    // The nodes of a new cluster tell each other which of them are replicas.
    eventually("all replicas are known", || {
        found = good(check_store(&store));
        found.matches(", replica, ").count() == 3
    });
    let slots = found.lines().filter_map(|line| {
        let (_, rest) = line.split_once(", master, ")?;
        rest.split_once(" slots")?.0.parse::<u32>().ok()
    });
    let slots: Vec<u32> = slots.collect();
    assert_eq!((slots.len(), slots.iter().sum::<u32>()), (3, 16_384), "{found}");
    let node = cluster.masters().next().expect("a cluster has masters");
    let report = bad(check_store(&format!("url: \"{}\"", node.url())));
    assert!(report.contains("the server is a node of a cluster"), "{report}");
    assert!(report.contains("| write redis+cluster:// instead of redis://"), "{report}");
}

/// The rights are those of docs/redis.md for a cluster.
#[test]
fn rights_in_a_cluster_are_named() {
    let text = std::fs::read_to_string("docs/redis.md").expect("tests run in the project");
    let line = text.lines().find_map(|line| line.strip_prefix("ACL SETUSER ")).expect("rules");
    let lines = vec![format!("user {line} +cluster|slots +asking +readonly")];
    let cluster = Cluster::start_with(Options { lines, ..Options::default() });
    let user = "username: tollgate, password: secret, read_from: replica";
    let store = format!("url: \"{}\", {user}", cluster.url());
    good(check_store(&store));
    let node = cluster.masters().next().expect("a cluster has masters");
    assert!(!node.cli(&["ACL", "LOG"]).contains("reason"));
    node.cli(&["ACL", "SETUSER", "tollgate", "-asking", "-hset"]);
    let report = bad(check_store(&store));
    assert!(report.contains("| run ACL SETUSER tollgate +asking\n"), "{report}");
    assert!(report.contains("| run ACL SETUSER tollgate +hset\n"), "{report}");
    for node in cluster.masters() {
        node.cli(&["ACL", "SETUSER", "tollgate", "-cluster|slots"]);
    }
    let report = bad(check_store(&store));
    assert!(report.contains("| run ACL SETUSER tollgate +cluster|slots\n"), "{report}");
}

#[test]
fn each_shard_has_a_line() {
    let shard = Redis::start(Options::default());
    let nothing = Reserved::new();
    let output =
        check_store(&format!("shards: [\"{}\", \"redis://{}\"]", shard.url(), nothing.address()));
    let line = format!("store.redis.shards: 127.0.0.1:{}: good (", shard.port());
    assert!(output.stdout.contains(&line), "{}", output.stdout);
    let report = bad(output);
    assert!(report.contains(&format!("store.redis.shards: {}: ", nothing.address())), "{report}");
    assert!(report.ends_with("error: 1 of 2 servers and files cannot be used as they are\n"));
}
