//! Limits of single keys in Redis: set by the command line while gateways run,
//! in effect on all of them.

use std::thread;
use std::time::Duration;

use super::{node, wait_for_store};
use crate::support::load::client_field;
use crate::support::redis::{Cluster, Options, Redis, Sentinels};
use crate::support::{Client, Gateway, eventually};

/// The time within which a change is in effect on all nodes.
const IN_EFFECT: Duration = Duration::from_secs(2);

/// The number of clients is so large that each of three servers stores some, whatever their
/// secret is. The probability that one stores none is one in a million.
const CLIENTS: usize = 36;

fn pair(store: &str, policy: &str) -> [Gateway; 2] {
    [(); 2].map(|()| {
        let gateway = node(store, &format!("limit: 3/day, overrides: true, {policy}"));
        wait_for_store(&gateway);
        gateway
    })
}

fn set(gateway: &Gateway, key: &str, limit: &str) {
    let output = gateway.overrides(&["set", "each", key, limit]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

fn limits(clients: &mut [Client; 2], field: &str) -> [u64; 2] {
    clients.each_mut().map(|client| client.get("/", &[field]).number("X-Ratelimit-Limit"))
}

/// Two nodes that reach their store in this way apply the overrides of many clients.
fn holds(store: &str) {
    let gateways = pair(store, "");
    let mut clients = gateways.each_ref().map(Gateway::client);
    for client in 0..CLIENTS {
        assert_eq!(
            limits(&mut clients, &client_field(client)),
            [3, 3],
            "client {client} by {store}"
        );
    }
    for client in 0..CLIENTS {
        let name = client_field(client);
        let name = name.strip_prefix("X-Client: ").expect("it is the field");
        set(&gateways[client % 2], name, &(100 + client).to_string());
    }
    thread::sleep(IN_EFFECT);
    for client in 0..CLIENTS {
        let limit = 100 + u64::try_from(client).expect("it is small");
        assert_eq!(
            limits(&mut clients, &client_field(client)),
            [limit; 2],
            "client {client} by {store}"
        );
    }
    assert_eq!(limits(&mut clients, "X-Client: somebody else"), [3, 3]);
}

#[test]
fn on_one_server_by_a_user_who_may_do_no_more_than_the_documentation_says() {
    let text = std::fs::read_to_string("docs/redis.md").expect("tests run in the project");
    let rules = text.lines().find_map(|line| line.strip_prefix("ACL SETUSER "));
    let lines = vec![format!("user {}", rules.expect("it shows ACL SETUSER"))];
    let redis = Redis::start(Options { password: Some("admin"), lines, ..Options::default() });
    holds(&format!("url: \"redis://tollgate:secret@127.0.0.1:{}\"", redis.port()));
    let denied = redis.cli(&["ACL", "LOG"]);
    assert!(!denied.contains("reason\ncommand"), "{denied}");
}

#[test]
fn on_servers_that_do_not_know_of_each_other() {
    let shards = [(); 3].map(|()| Redis::start(Options::default()));
    let urls = shards.each_ref().map(|shard| format!("\"{}\"", shard.url()));
    holds(&format!("shards: [{}]", urls.join(", ")));
    let kept = shards.each_ref().map(|shard| shard.cli(&["KEYS", "tollgate:o:*"]).lines().count());
    assert!(kept.iter().all(|hashes| *hashes > 0), "{kept:?}");
}

#[test]
fn in_a_cluster_also_after_slots_have_moved() {
    let cluster = Cluster::start();
    let store = format!("url: \"{}\"", cluster.url());
    holds(&store);
    let gateways = pair(&store, "");
    set(&gateways[0], "ann", "50");
    cluster.reshard(200);
    set(&gateways[0], "bob", "60");
    let mut clients = gateways.each_ref().map(Gateway::client);
    eventually("ann's holds", || limits(&mut clients, "X-Client: ann") == [50, 50]);
    eventually("bob's holds", || limits(&mut clients, "X-Client: bob") == [60, 60]);
}

#[test]
fn on_a_master_that_sentinels_know() {
    let sentinels = Sentinels::start();
    holds(&format!("url: \"{}\"", sentinels.url()));
}

/// The number of reads of a hash field at this server.
fn lookups(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hget:calls="));
    let calls = line.and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.trim().parse().expect("it is a number"))
}

/// Requests the limits of new clients until `is_read` returns true.
fn ask_until(store: &str, what: &str, mut is_read: impl FnMut() -> bool) {
    let gateways = pair(store, "");
    let mut clients = gateways.each_ref().map(Gateway::client);
    let mut next = 1000..;
    eventually(what, || {
        let names: Vec<_> = next.by_ref().take(20).map(client_field).collect();
        assert!(names.iter().all(|name| limits(&mut clients, name) == [3, 3]));
        is_read()
    });
}

#[test]
fn read_from_the_replica_that_sentinels_know_and_without_it_from_the_master() {
    let mut sentinels = Sentinels::start();
    let store = format!("url: \"{}\", read_from: replica", sentinels.url());
    holds(&store);
    let replica = &sentinels.replica;
    ask_until(&store, "the replica is read", || lookups(replica) > 20);
    // Counters are on the master: replicas never decide.
    assert!(!replica.cli(&["INFO", "commandstats"]).contains("cmdstat_evalsha"));
    sentinels.replica.kill();
    let gateways = pair(&store, "");
    let mut clients = gateways.each_ref().map(Gateway::client);
    assert_eq!(limits(&mut clients, &client_field(0)), [100, 100], "it is read from the master");
    assert_eq!(limits(&mut clients, "X-Client: never seen"), [3, 3]);
    says_that_a_replica_is_away(&store);
}

/// A node whose replica is away says so, and how many.
fn says_that_a_replica_is_away(store: &str) {
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, \
             token: read-0123456789abcdef }}], hosts: [gateway.test] }}\n\
         store: {{ redis: {{ {store} }} }}\n\
         policies: {{ each: {{ key: \"header:x-client\", limit: 3/day, overrides: true }} }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n"
    ));
    let get = |path: &str| {
        let mut client = Client::connect(gateway.addresses()[1]);
        client.get(path, &["Authorization: Bearer read-0123456789abcdef"]).text()
    };
    eventually("the replica is missed", || {
        thread::sleep(Duration::from_millis(250));
        get("/v1/status").contains("\"replica_away\"")
            && get("/metrics").contains("tollgate_store_replicas_away 1")
    });
}

#[test]
fn read_from_a_replica_that_has_lost_its_master_only_until_that_is_known() {
    let sentinels = Sentinels::start();
    let store = format!("url: \"{}\", read_from: replica", sentinels.url());
    // The replica keeps its data, and follows no master.
    sentinels.replica.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let gateways = pair(&store, "");
    set(&gateways[0], "ann", "50");
    // Later than the time at which changes are read from the master in any case.
    thread::sleep(Duration::from_secs(6));
    let other = pair(&store, "");
    let mut clients = other.each_ref().map(Gateway::client);
    assert_eq!(limits(&mut clients, "X-Client: ann"), [50, 50]);
}

#[test]
fn read_from_the_replicas_of_a_cluster() {
    let cluster = Cluster::start();
    let store = format!("url: \"{}\", read_from: replica, connections: 2", cluster.url());
    holds(&store);
    let masters: Vec<u16> = cluster.masters().map(Redis::port).collect();
    let replicas: Vec<_> =
        cluster.nodes.iter().filter(|node| !masters.contains(&node.port())).collect();
    ask_until(&store, "all replicas are read", || replicas.iter().all(|it| lookups(it) > 5));
    for replica in replicas {
        assert!(!replica.cli(&["INFO", "commandstats"]).contains("cmdstat_evalsha"));
    }
}

/// A replica of Redis 7 does not know that the slot of its master moves, and says of keys that have
/// moved that they do not exist. Their clients had the limit of the policy.
#[test]
fn read_from_the_replicas_of_a_cluster_also_while_a_slot_moves() {
    let cluster = Cluster::start();
    let gateways = pair(&format!("url: \"{}\", read_from: replica", cluster.url()), "");
    set(&gateways[0], "ann", "50");
    let names = cluster.masters().map(|it| it.cli(&["KEYS", "tollgate:o:*"]));
    let name = names.collect::<String>();
    cluster.begin_to_move(name.trim());
    // Later than the time at which changes are read from the master in any case.
    thread::sleep(Duration::from_secs(7));
    let mut clients = gateways.each_ref().map(Gateway::client);
    assert_eq!(limits(&mut clients, "X-Client: ann"), [50, 50]);
}

#[test]
fn a_raised_limit_ends_a_refusal_in_every_mode_and_a_lowered_one_begins_it() {
    let redis = Redis::start(Options::default());
    for mode in ["exact", "leased", "write_back"] {
        let gateways = pair(&format!("url: \"{}\"", redis.url()), &format!("store_mode: {mode}"));
        let mut clients = gateways.each_ref().map(Gateway::client);
        let name = mode;
        let field = format!("X-Client: {mode}");
        let refused = |clients: &mut [Client; 2]| {
            clients.each_mut().map(|client| client.get("/", &[&field]).status == 429)
        };
        eventually("both refuse", || refused(&mut clients) == [true, true]);
        set(&gateways[0], name, "100");
        thread::sleep(IN_EFFECT);
        assert_eq!(refused(&mut clients), [false, false], "{mode}");
        assert_eq!(limits(&mut clients, &field), [100, 100], "{mode}");
        set(&gateways[1], name, "2");
        thread::sleep(IN_EFFECT);
        assert_eq!(refused(&mut clients), [true, true], "{mode}");
        set(&gateways[1], name, "unlimited");
        thread::sleep(IN_EFFECT);
        let response = clients[0].get("/", &[&field]);
        assert_eq!((response.status, response.field("X-Ratelimit-Limit")), (200, None), "{mode}");
        gateways[0].overrides(&["unset", "each", name]);
        thread::sleep(IN_EFFECT);
        assert_eq!(refused(&mut clients), [true, true], "{mode}");
    }
}

#[test]
fn while_redis_is_away_what_was_known_holds_and_nothing_can_be_set() {
    let redis = Redis::start(Options::default());
    let gateways = pair(&format!("url: \"{}\"", redis.url()), "");
    let mut clients = gateways.each_ref().map(Gateway::client);
    set(&gateways[0], "ann", "100");
    thread::sleep(IN_EFFECT);
    assert_eq!(limits(&mut clients, "X-Client: ann"), [100, 100]);
    redis.stop();
    eventually("it is away", || {
        clients.each_mut().iter_mut().all(|client| {
            client.get("/", &["X-Client: ann"]).field("X-Ratelimit-Source") == Some("local")
        })
    });
    // The node's share of the limit depends on the number of nodes that it knows.
    let parts = limits(&mut clients, "X-Client: ann");
    assert!(parts.iter().all(|part| [50, 100].contains(part)), "{parts:?}");
    let output = gateways[0].overrides(&["set", "each", "ann", "200"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("Redis cannot be reached"), "{}", output.stderr);
    redis.cont();
    set(&gateways[0], "ann", "200");
    eventually("it is in effect", || limits(&mut clients, "X-Client: ann") == [200, 200]);
}
