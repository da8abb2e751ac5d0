//! Several nodes on one real server.

use tollgate_core::digest::SharedSecret;
use tollgate_core::store::MemoryStore;
use tollgate_core::time::Clock;

use super::super::outages::Outages;
use super::super::store::{NodeState, RedisStore};
use super::super::testing::{ECHO, PATIENCE, Process, eventually, run, settings};
use super::*;

async fn present(server: &Process, buckets: u64) -> (Membership, watch::Receiver<ClusterState>) {
    let settings = settings(server.topology(), PATIENCE);
    let servers = Rc::new(Servers::connect(&settings, &*ECHO, &Outages::default()));
    servers.settled().await;
    let (sender, cluster_state) = watch::channel(ClusterState::unknown(&settings));
    (
        Membership::new(servers, &settings, buckets, Secret::random(), Arc::default(), sender),
        cluster_state,
    )
}

fn secret(cluster_state: &watch::Receiver<ClusterState>) -> Option<[u8; 16]> {
    cluster_state.borrow().secret.map(|secret| *secret.expose())
}

#[test]
fn nodes_agree_on_the_values_of_the_first_node() {
    run(async {
        let server = Process::start(&[]);
        let (mut first, first_facts) = present(&server, 16).await;
        let (mut second, second_facts) = present(&server, 64).await;
        assert_eq!(secret(&first_facts), None);
        first.visit().await.expect("Redis answers");
        second.visit().await.expect("Redis answers");
        first.visit().await.expect("Redis answers");
        assert!(secret(&first_facts).is_some());
        assert_eq!(secret(&first_facts), secret(&second_facts));
        for (node, cluster_state) in [(first, first_facts), (second, second_facts)] {
            assert_eq!(cluster_state.borrow().buckets, Some(16));
            assert_eq!(node.nodes_alive.get(), 2);
        }
    });
}

#[test]
fn a_right_that_lacks_is_the_error_of_the_visit() {
    run(async {
        for command in ["SET", "GET", "EVAL"] {
            let server = Process::start(&["--rename-command", command, "renamed"]);
            let (mut member, state) = present(&server, 16).await;
            let error = member.visit().await.expect_err("it lacks a command");
            // The link uses no server on which the test write fails.
            let expected =
                if command == "EVAL" { OutageCause::NoAnswer } else { OutageCause::CommandMissing };
            assert_eq!(error.cause(), expected, "{command}: {error}");
            assert_eq!(secret(&state), None);
        }
    });
}

#[test]
fn the_agreed_state_is_written_again_after_redis_has_lost_it() {
    run(async {
        let server = Process::start(&[]);
        let (mut first, cluster_state) = present(&server, 16).await;
        first.visit().await.expect("Redis answers");
        let agreed = secret(&cluster_state);
        server.command(&["FLUSHALL"]);
        first.visit().await.expect("Redis answers");
        let (mut second, second_facts) = present(&server, 64).await;
        second.visit().await.expect("Redis answers");
        assert_eq!(secret(&second_facts), agreed);
        assert_eq!(second_facts.borrow().buckets, Some(16));
    });
}

#[test]
fn a_node_without_heartbeats_does_not_count() {
    run(async {
        let server = Process::start(&[]);
        let (mut node, _cluster_state) = present(&server, 16).await;
        server.command(&["HSET", "tollgate:meta:nodes", "gone", "1000000"]);
        node.visit().await.expect("Redis answers");
        assert_eq!(node.nodes_alive.get(), 1);
        assert_eq!(server.command(&["HLEN", "tollgate:meta:nodes"]), "1");
        assert_ne!(server.command(&["TTL", "tollgate:meta:nodes"]), "-1");
    });
}

#[test]
fn a_configured_secret_is_never_written_to_redis() {
    run(async {
        let server = Process::start(&[]);
        let mut given = (*settings(server.topology(), PATIENCE)).clone();
        given.secret = Some(Secret::from_bytes([7; 16]));
        let servers =
            Rc::new(Servers::connect(&Rc::new(given.clone()), &*ECHO, &Outages::default()));
        servers.settled().await;
        let (sender, cluster_state) = watch::channel(ClusterState::unknown(&given));
        let mut node =
            Membership::new(servers, &given, 16, Secret::random(), Arc::default(), sender);
        assert_eq!(secret(&cluster_state), Some([7; 16]));
        node.visit().await.expect("Redis answers");
        assert_eq!(secret(&cluster_state), Some([7; 16]));
        assert_eq!(server.command(&["EXISTS", "tollgate:meta:secret"]), "0");
    });
}

#[test]
fn an_invalid_value_is_an_error_and_changes_nothing() {
    run(async {
        let server = Process::start(&[]);
        let (mut node, cluster_state) = present(&server, 16).await;
        for (name, value) in [("secret", "x"), ("secret", "+0"), ("buckets", "3"), ("buckets", "")]
        {
            server.command(&["FLUSHALL"]);
            server.command(&["SET", &format!("tollgate:meta:{name}"), value]);
            let visit = node.visit().await;
            assert!(matches!(visit, Err(StoreError::InvalidReply(_))), "{name} {value}: {visit:?}");
            assert_eq!(secret(&cluster_state), None);
        }
    });
}

#[test]
fn the_agreed_number_of_buckets_is_that_of_the_layout_and_is_published_once() {
    run(async {
        let server = Process::start(&[]);
        for stored in [8_u64, 16, 1 << 40] {
            server.command(&["SET", "tollgate:meta:buckets", &stored.to_string()]);
            let (mut node, mut cluster_state) = present(&server, 64).await;
            node.visit().await.expect("Redis answers");
            let agreed = cluster_state.borrow_and_update().buckets;
            assert_eq!(agreed, Some(Layout::with_buckets("tollgate", stored).buckets()));
            node.visit().await.expect("Redis answers");
            assert_eq!(cluster_state.has_changed().ok(), Some(false), "{stored}");
        }
    });
}

/// With fewer buckets than a layout has, each heartbeat gave each worker another record of units in
/// flight, while its old ones still counted.
#[test]
fn a_worker_keeps_its_record_of_units_in_flight_over_heartbeats() {
    run(async {
        let server = Process::start(&[]);
        server.command(&["SET", "tollgate:meta:buckets", "8"]);
        let settings = settings(server.topology(), PATIENCE);
        let secret = Arc::new(SharedSecret::new(Secret::random()));
        let memory = Arc::new(MemoryStore::new(1000));
        let state = Arc::new(NodeState::new((*settings).clone(), memory, secret));
        let sender = state.publisher.lock().take().expect("no worker has it");
        let store = Rc::new(RedisStore::open(&state, Clock::System));
        store.servers.settled().await;
        let servers = Rc::clone(&store.servers);
        let mut node =
            Membership::new(servers, &settings, 16, Secret::random(), Arc::default(), sender);
        let mut records = Vec::new();
        for _ in 0..2 {
            node.visit().await.expect("Redis answers");
            store.housekeep(Clock::System.now());
            records.push(store.encoder().expect("the state is known").node());
        }
        assert_eq!(records[0], records[1]);
    });
}

async fn on_shards(servers: &[&Process]) -> (Membership, watch::Receiver<ClusterState>) {
    let shards = servers.iter().map(|server| server.address()).collect();
    let settings = settings(super::super::settings::Topology::Shards(shards), PATIENCE);
    let servers = Rc::new(Servers::connect(&settings, &*ECHO, &Outages::default()));
    servers.settled().await;
    let (sender, cluster_state) = watch::channel(ClusterState::unknown(&settings));
    (
        Membership::new(servers, &settings, 16, Secret::random(), Arc::default(), sender),
        cluster_state,
    )
}

/// Before, only one of the shards stored the state. A node that started without that shard
/// could not decide.
#[test]
fn a_node_that_starts_while_any_shard_is_away_reads_the_agreed_state() {
    run(async {
        let mut shards = [Process::start(&[]), Process::start(&[]), Process::start(&[])];
        let (mut first, cluster_state) = on_shards(&shards.each_ref()).await;
        first.visit().await.expect("Redis answers");
        let agreed = secret(&cluster_state);
        assert!(agreed.is_some());
        for away in 0..shards.len() {
            shards[away].kill();
            let (mut node, cluster_state) = on_shards(&shards.each_ref()).await;
            node.visit().await.expect("two shards answer");
            assert_eq!(secret(&cluster_state), agreed, "without shard {away}");
            assert_eq!(cluster_state.borrow().buckets, Some(16));
            assert!(node.nodes_alive.get() >= 2, "without shard {away}");
            // The shard comes back empty, and a running node writes the state there.
            shards[away].restart();
            let (mut node, _facts) = on_shards(&shards.each_ref()).await;
            node.visit().await.expect("all shards answer");
        }
    });
}

#[test]
fn if_shards_differ_one_of_them_holds() {
    run(async {
        let shards = [Process::start(&[]), Process::start(&[])];
        let secrets = ["11111111111111111111111111111111", "22222222222222222222222222222222"];
        for (shard, secret) in shards.iter().zip(secrets) {
            shard.command(&["SET", "tollgate:meta:secret", secret]);
        }
        let mut agreed = Vec::new();
        for _ in 0..2 {
            let (mut node, cluster_state) = on_shards(&shards.each_ref()).await;
            node.visit().await.expect("all shards answer");
            agreed.push(secret(&cluster_state));
            let copies = shards.each_ref().map(|it| it.command(&["GET", "tollgate:meta:secret"]));
            assert_eq!(copies[0], copies[1]);
        }
        assert_eq!(agreed[0], agreed[1]);
    });
}

/// Two nodes that have never seen the same shard have agreed on two secrets.
#[test]
fn nodes_that_agreed_on_different_shards_agree_when_all_shards_are_up() {
    run(async {
        let mut shards = [Process::start(&[]), Process::start(&[])];
        let mut nodes = Vec::new();
        for away in 0..2 {
            shards[away].kill();
            let (mut node, cluster_state) = on_shards(&shards.each_ref()).await;
            node.visit().await.expect("one shard answers");
            shards[away].restart();
            nodes.push((node, cluster_state));
        }
        assert_ne!(secret(&nodes[0].1), secret(&nodes[1].1));
        let (mut third, cluster_state) = on_shards(&shards.each_ref()).await;
        third.visit().await.expect("all shards answer");
        for (node, _) in &mut nodes {
            eventually("it has both", async || node.servers.is_up()).await;
            node.visit().await.expect("all shards answer");
        }
        let agreed = secret(&cluster_state);
        assert!(nodes.iter().all(|(_, cluster_state)| secret(cluster_state) == agreed));
    });
}
