//! Every way to connect to Redis that the configuration supports. With each, two gateways
//! share the limits of many clients.

use std::sync::Arc;

use super::{node, node_of, wait_for_store};
use crate::support::load::client_field;
use crate::support::redis::{Cluster, LOOPBACK, Options, Redis, ScriptsWithoutTime, Sentinels};
use crate::support::{Certificates, Gateway, eventually};

/// More clients than servers or owners of slots, so that each has some.
const CLIENTS: usize = 60;

/// Two nodes that reach their store in this way admit three requests of each client.
fn holds(store: &str) {
    let gateways = [(); 2].map(|()| node(store, "limit: 3/day"));
    gateways.iter().for_each(wait_for_store);
    let mut clients = gateways.each_ref().map(Gateway::client);
    for client in 0..CLIENTS {
        let statuses =
            [0, 1, 0, 1].map(|node| clients[node].get("/", &[&client_field(client)]).status);
        assert_eq!(statuses, [200, 200, 200, 429], "client {client} by {store}");
    }
}

#[test]
fn a_server_with_a_password_in_a_database_of_its_own() {
    let redis = Redis::start(Options { password: Some("p@ss:w/ord"), ..Options::default() });
    holds(&format!("url: \"redis://127.0.0.1:{}/7\", password: \"p@ss:w/ord\"", redis.port()));
    let keyspace = redis.cli(&["INFO", "keyspace"]);
    assert!(keyspace.contains("db7:") && !keyspace.contains("db0:"), "{keyspace}");
}

/// Gateways share limits on this server, and the log says once how it differs from others.
fn holds_with(url: &str, difference: &str) {
    for mode in ["exact", "leased"] {
        holds(&format!("url: \"{url}\", prefix: {mode}, mode: {mode}"));
    }
    let gateway = node(&format!("url: \"{url}\""), "limit: 3/day");
    wait_for_store(&gateway);
    eventually("the log says so", || gateway.log().contains(difference));
    assert_eq!(gateway.log().matches(difference).count(), 1, "{}", gateway.log());
}

/// As Azure Managed Redis, Redis Enterprise and ElastiCache Serverless. A gateway is not told.
#[test]
fn a_cluster_behind_one_address() {
    let redis = Redis::start_with_slots(Options::default());
    holds_with(&redis.url(), "Redis has hash slots behind one address");
}

/// As ElastiCache Serverless was in 2024. The gateway gives scripts its estimate of the time.
#[test]
fn a_server_whose_scripts_cannot_ask_for_the_time() {
    let redis = ScriptsWithoutTime::start(Options::default());
    holds_with(&redis.url(), "Redis refuses TIME in scripts");
}

#[test]
fn a_user_who_may_do_no_more_than_the_documentation_says() {
    let lines = vec![format!("user {}", acl_of_documentation())];
    let redis = Redis::start(Options { password: Some("admin"), lines, ..Options::default() });
    holds(&format!("url: \"redis://tollgate:secret@127.0.0.1:{}\"", redis.port()));
    let denied = redis.cli(&["ACL", "LOG"]);
    assert!(!denied.contains("reason\ncommand"), "{denied}");
}

#[test]
fn a_user_of_a_cluster_who_may_do_no_more_than_the_documentation_says() {
    let more = "+cluster|slots +asking +readonly";
    assert!(documentation().contains(&format!("In a cluster it also needs `{more}`")));
    let lines = vec![format!("user {} {more}", acl_of_documentation())];
    let cluster = Cluster::start_with(Options { lines, ..Options::default() });
    let user = "username: tollgate, password: secret, read_from: replica";
    holds(&format!("url: \"{}\", {user}", cluster.url()));
    for master in cluster.masters() {
        let denied = master.cli(&["ACL", "LOG"]);
        assert!(!denied.contains("reason\ncommand"), "{denied}");
    }
}

#[test]
fn a_user_of_sentinels_who_may_do_no_more_than_the_documentation_says() {
    let more = "+sentinel|get-master-addr-by-name +sentinel|replicas";
    assert!(documentation().contains(&format!("a user of Sentinels `{more}`")));
    let user = |rules: &str| vec![format!("user {rules}")];
    let sentinels = Sentinels::start_with(
        Options {
            password: Some("admin"),
            lines: user(&acl_of_documentation()),
            ..Options::default()
        },
        user(&format!("tollgate on >secret resetchannels -@all +@connection {more}")),
    );
    let user = "username: tollgate, password: secret, read_from: replica";
    holds(&format!("url: \"{}\", {user}", sentinels.url()));
    let denied = sentinels.master.cli(&["ACL", "LOG"]);
    assert!(!denied.contains("reason\ncommand"), "{denied}");
}

/// Their password is not that of the servers.
#[test]
fn sentinels_with_a_user_and_a_password_of_their_own() {
    let sentinels = Sentinels::start_with(
        Options {
            password: Some("admin"),
            lines: vec![format!("user {}", acl_of_documentation())],
            ..Options::default()
        },
        vec!["user tollgate on >other resetchannels +@all".to_owned()],
    );
    let store = format!("url: \"{}\", username: tollgate, password: secret", sentinels.url());
    holds(&format!("{store}, sentinel: {{ username: tollgate, password: other }}"));
    is_no_store(&store, "sentinel_password");
}

fn documentation() -> String {
    std::fs::read_to_string("docs/redis.md").expect("tests run in the project")
}

/// The rules for the gateway's user in docs/redis.md.
fn acl_of_documentation() -> String {
    let text = documentation();
    let line = text.lines().find_map(|line| line.strip_prefix("ACL SETUSER "));
    line.expect("docs/redis.md shows ACL SETUSER").to_owned()
}

fn over_tls(name: &'static str) -> Redis {
    Redis::start(behind_tls(&Arc::new(Certificates::temporary(name))))
}

/// Servers that present these certificates, and request one of the same authority.
fn behind_tls(made: &Arc<Certificates>) -> Options {
    Options { tls: Some(Arc::clone(made)), ..Options::default() }
}

/// The fields for a server whose certificate is signed by the authority of `trusted`. The
/// gateway presents the certificate of `known`, if there is one.
fn by_tls(url: &str, trusted: &Certificates, known: Option<&Certificates>) -> String {
    let own = known.map(|own| format!(", cert: {:?}, key: {:?}", own.client(), own.client_key()));
    let ca = trusted.ca();
    let own = own.unwrap_or_default();
    format!("url: \"{url}\", tls: {{ ca: {ca:?}{own} }}")
}

#[test]
fn a_server_behind_tls_that_asks_for_certificates() {
    let redis = over_tls(LOOPBACK);
    let made = redis.certificates();
    holds(&by_tls(&redis.url(), made, Some(made)));
}

/// A gateway serves requests without the store of these fields, and logs the reason.
fn is_no_store(store: &str, why: &str) {
    let gateway = node(store, "limit: 3/day");
    let response = gateway.client().get("/", &["X-Client: ann"]);
    assert_eq!((response.status, response.field("X-Ratelimit-Source")), (200, Some("local")));
    eventually("the log says why", || gateway.log().to_lowercase().contains(why));
}

#[test]
fn a_server_behind_tls_that_is_not_to_be_trusted_is_no_store() {
    let redis = over_tls(LOOPBACK);
    let other = over_tls(LOOPBACK);
    let made = redis.certificates();
    is_no_store(&by_tls(&redis.url(), other.certificates(), Some(made)), "certificate");
}

#[test]
fn a_server_behind_tls_with_the_certificate_of_another_is_no_store() {
    let redis = over_tls("elsewhere.test");
    let made = redis.certificates();
    is_no_store(&by_tls(&redis.url(), made, Some(made)), "certificate");
}

/// As a service whose nodes have addresses, and certificates for the name of the service.
#[test]
fn a_cluster_behind_tls_with_certificates_for_its_name() {
    let made = Arc::new(Certificates::temporary("localhost"));
    let cluster = Cluster::start_with(behind_tls(&made));
    holds(&by_tls(&cluster.url().replace(LOOPBACK, "localhost"), &made, Some(&made)));
    is_no_store(&by_tls(&cluster.url(), &made, Some(&made)), "certificate");
}

#[test]
fn a_server_behind_tls_with_a_certificate_for_a_name_that_the_settings_name() {
    let redis = over_tls("elsewhere.test");
    let made = redis.certificates();
    let named = |name: &str| {
        let fields = by_tls(&redis.url(), made, Some(made));
        fields.replace("tls: {", &format!("tls: {{ server_name: {name},"))
    };
    holds(&named("elsewhere.test"));
    is_no_store(&named("127.0.0.1"), "certificate");
}

#[test]
fn a_server_behind_tls_that_does_not_know_us_is_no_store() {
    let redis = over_tls(LOOPBACK);
    let other = over_tls(LOOPBACK);
    for known in [None, Some(other.certificates())] {
        is_no_store(&by_tls(&redis.url(), redis.certificates(), known), "redis is away");
    }
}

#[test]
fn a_wrong_password_opens_no_store_and_is_not_logged() {
    let redis = Redis::start(Options { password: Some("right"), ..Options::default() });
    let store = format!("url: \"{}\", password: wrong-one", redis.url());
    is_no_store(&store, "password");
    let gateway = node(&store, "limit: 3/day");
    assert!(!gateway.log().contains("wrong-one"), "{}", gateway.log());
}

#[test]
fn a_unix_socket() {
    let redis = Redis::start(Options::default());
    holds(&format!("url: \"redis+unix://{}?db=5\"", redis.socket().display()));
    assert!(redis.cli(&["INFO", "keyspace"]).contains("db5:"));
}

/// The number of connections to a server, without the one that asks.
fn connections(redis: &Redis) -> usize {
    redis.cli(&["CLIENT", "LIST"]).lines().filter(|line| line.contains("addr=")).count() - 1
}

#[test]
fn several_connections_to_one_server() {
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", connections: 3", redis.url());
    let gateway = node_of(&store, "each: { key: \"header:x-client\", limit: 3/day }", "[each]", 2);
    wait_for_store(&gateway);
    // The main thread has one more.
    eventually("each worker has three", || connections(&redis) == 7);
    drop(gateway);
    holds(&store);
}

/// Counters of one request that use several connections to one server are all counted or,
/// in the end, none, as on several servers.
#[test]
fn a_request_whose_counters_go_over_several_connections() {
    let redis = Redis::start(Options::default());
    let store = format!("url: \"{}\", connections: 5", redis.url());
    let policies =
        "each: { key: \"header:x-client\", limit: 3/day }, all: { key: global, limit: 30/day }";
    let gateways = [(); 2].map(|()| node_of(&store, policies, "[each, all]", 1));
    gateways.iter().for_each(wait_for_store);
    let mut clients = gateways.each_ref().map(Gateway::client);
    let mut admitted = 0;
    for round in 0..5 {
        for client in 0..20 {
            let status = clients[(client + round) % 2].get("/", &[&client_field(client)]).status;
            admitted += usize::from(status == 200);
        }
    }
    assert_eq!(admitted, 30);
}

#[test]
fn several_connections_to_each_node_of_a_cluster() {
    let cluster = Cluster::start();
    holds(&format!("url: \"{}\", connections: 3", cluster.url()));
}

#[test]
fn servers_that_do_not_know_of_each_other() {
    let shards = [(); 3].map(|()| Redis::start(Options::default()));
    let urls = shards.each_ref().map(|shard| format!("\"{}\"", shard.url()));
    holds(&format!("shards: [{}]", urls.join(", ")));
    for shard in &shards {
        let calls = shard.cli(&["INFO", "commandstats"]);
        assert!(calls.contains("cmdstat_evalsha"), "a shard has nothing to do:\n{calls}");
    }
}

#[test]
fn a_master_that_sentinels_know() {
    let sentinels = Sentinels::start();
    holds(&format!("url: \"{}\"", sentinels.url()));
}

#[test]
fn a_master_that_sentinels_with_a_password_know() {
    let options = Options { password: Some("watchword"), ..Options::default() };
    let sentinels = Sentinels::start_with(options, Vec::new());
    holds(&format!("url: \"{}\", password: watchword", sentinels.url()));
}

#[test]
fn a_master_that_sentinels_know_all_of_them_behind_tls() {
    let made = Arc::new(Certificates::temporary(LOOPBACK));
    let sentinels = Sentinels::start_with(behind_tls(&made), Vec::new());
    holds(&by_tls(&sentinels.url(), &made, Some(&made)));
}

#[test]
fn a_cluster_behind_tls() {
    let made = Arc::new(Certificates::temporary(LOOPBACK));
    let cluster = Cluster::start_with(behind_tls(&made));
    holds(&by_tls(&cluster.url(), &made, Some(&made)));
}

#[test]
fn a_cluster() {
    let cluster = Cluster::start();
    holds(&format!("url: \"{}\"", cluster.url()));
    for master in cluster.masters() {
        let calls = master.cli(&["INFO", "commandstats"]);
        assert!(calls.contains("cmdstat_evalsha"), "a master has nothing to do:\n{calls}");
    }
}
