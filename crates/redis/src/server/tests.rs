//! Several servers: shards, a cluster and sentinels.

use std::num::NonZeroU16;
use std::sync::LazyLock;

use tollgate_core::store::OutageCause;

use super::super::live_settings::Latest;
use super::super::script::Script;
use super::super::testing::{ECHO, FakeServer, Manner, PATIENCE, Process};
use super::super::testing::{asked, eventually, run, settings, timed};
use super::super::transport::{AnyTransport, Network};
use super::*;
use crate::breaker::Position;

impl Servers {
    async fn ask(&self, key: &str) -> Reply {
        self.call(self.destination(key.as_bytes()), asked(key, "body"), Repeat::Never).await
    }
}

async fn connected(topology: Topology) -> Servers {
    let servers = Servers::connect(&settings(topology, PATIENCE), &*ECHO, &Outages::default());
    servers.settled().await;
    servers
}

/// Two nodes, each with half of the slots.
async fn cluster() -> ([FakeServer; 2], Servers) {
    let nodes = [FakeServer::start(Manner::Echo).await, FakeServer::start(Manner::Echo).await];
    for node in &nodes {
        node.tell(&[(0, 8191, &nodes[0]), (8192, 16_383, &nodes[1])]);
    }
    let servers = connected(Topology::Cluster(vec![nodes[0].address()])).await;
    (nodes, servers)
}

/// Slots 11,058 and 5,061: of the second node and of the first node.
const SECOND: &str = "somekey";
const FIRST: &str = "bar";

#[test]
fn a_shard_that_is_away_does_not_affect_the_others() {
    run(async {
        let mut shards = [Process::start(&[]), Process::start(&[])];
        let addresses = shards.iter().map(Process::address).collect();
        let servers = connected(Topology::Shards(addresses)).await;
        let keys: Vec<String> = (0..20).map(|key| format!("key{key}")).collect();
        for key in &keys {
            assert_eq!(servers.ask(key).await, Ok("body".into()));
        }
        let kept = |shard: &Process, key: &str| shard.command(&["EXISTS", key]) == "1";
        let second: Vec<&String> = keys.iter().filter(|key| kept(&shards[1], key)).collect();
        assert!(!second.is_empty() && second.len() < keys.len(), "both shards have keys");
        shards[0].kill();
        eventually("one shard is given up", async || {
            for key in &keys {
                let _ = servers.ask(key).await;
            }
            servers.health().iter().any(|health| health.position == Position::Open)
        })
        .await;
        for key in &keys {
            assert_eq!(servers.ask(key).await.is_ok(), second.contains(&key), "{key}");
        }
    });
}

#[test]
fn a_call_goes_to_the_node_that_keeps_its_slot() {
    run(async {
        let ([first, second], servers) = cluster().await;
        assert_ne!(servers.destination(FIRST.as_bytes()), servers.destination(SECOND.as_bytes()));
        assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
        assert_eq!((first.scripts(), second.scripts()), (0, 1));
        assert_eq!(servers.ask(FIRST).await, Ok("body".into()));
        assert_eq!((first.scripts(), second.scripts()), (1, 1));
    });
}

#[test]
fn a_moved_slot_is_followed_and_remembered() {
    run(async {
        let ([first, second], servers) = cluster().await;
        let slot = servers.destination(SECOND.as_bytes()).slot;
        second.behave(Manner::error(&format!("MOVED {slot} {}", first.address())));
        assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
        assert_eq!((first.scripts(), second.scripts()), (1, 1));
        assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
        assert_eq!((first.scripts(), second.scripts()), (2, 1), "the old node is not asked again");
        let healthy = servers.health().iter().all(|health| health.position != Position::Open);
        assert!(healthy, "a moved slot is no failure: {:?}", servers.health());
    });
}

#[test]
fn a_call_for_a_migrating_slot_follows_the_redirection_once() {
    run(async {
        let ([first, second], servers) = cluster().await;
        let slot = servers.destination(SECOND.as_bytes()).slot;
        second.behave(Manner::error(&format!("ASK {slot} {}", first.address())));
        for call in 1..=3 {
            assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
            assert_eq!((first.scripts(), second.scripts()), (call, call));
            assert_eq!(first.asking(), call);
        }
    });
}

/// Redis 6.2 redirects a script if any of its keys has moved. All calls of a batch followed, so the
/// counters of keys that had not moved yet began again on the other node.
#[test]
fn of_several_calls_in_a_batch_those_whose_keys_have_moved_are_redirected() {
    run(async {
        let ([first, second], servers) = cluster().await;
        let slot = servers.destination(SECOND.as_bytes()).slot;
        let redirection = format!("ASK {slot} {}", first.address());
        second.behave(Manner::HasOnly(SECOND.to_owned(), redirection));
        let moved = format!("{{{SECOND}}}:moved");
        let destination = servers.destination(SECOND.as_bytes());
        let [one, other] = [moved.as_str(), SECOND]
            .map(|key| servers.call(destination, asked(key, key), Repeat::Never));
        assert_eq!(one.await, Ok(moved.clone().into()));
        assert_eq!(other.await, Ok(SECOND.into()));
        assert_eq!((second.scripts(), first.scripts(), first.asking()), (3, 1, 1));
    });
}

/// The state that all gateways share is read by queries. They failed for as long as a slot moved.
#[test]
fn a_query_follows_redirections() {
    run(async {
        let ([first, second], servers) = cluster().await;
        let unknown = FakeServer::start(Manner::Echo).await;
        let mut commands = redis::pipe();
        commands.cmd("EVALSHA").arg("script").arg(1).arg(SECOND).arg("").arg("body");
        let answers = Ok(vec![Value::Array(vec![Value::BulkString("body".into())])]);
        let slot = servers.destination(SECOND.as_bytes()).slot;
        for to in [&first, &unknown] {
            second.behave(Manner::error(&format!("ASK {slot} {}", to.address())));
            assert_eq!(servers.query(SECOND.as_bytes(), &commands).await, answers);
            assert_eq!((to.scripts(), to.asking()), (1, 1));
        }
        second.behave(Manner::error(&format!("MOVED {slot} {}", first.address())));
        assert_eq!(servers.query(SECOND.as_bytes(), &commands).await, answers);
        assert_eq!((first.scripts(), first.asking()), (2, 1));
        assert_eq!(servers.name(SECOND.as_bytes()), first.address().to_string());
    });
}

/// One command that was redirected had all commands sent to the other node. So keys that had not
/// moved yet were unknown.
#[test]
fn only_the_commands_of_keys_that_have_moved_are_redirected() {
    run(async {
        let ([first, second], servers) = cluster().await;
        let slot = servers.destination(SECOND.as_bytes()).slot;
        let mut commands = redis::pipe();
        for key in [&format!("{{{SECOND}}}:moved"), SECOND, &format!("{{{SECOND}}}:also moved")] {
            commands.cmd("EVALSHA").arg("script").arg(1).arg(key).arg("").arg("body");
        }
        let has = Value::Array(vec![Value::BulkString("body".into())]);
        let destination = servers.destination(SECOND.as_bytes());
        first.behave(Manner::Bytes("$-1\r\n".to_owned()));
        for kind in ["ASK", "MOVED"] {
            let before = first.scripts();
            let redirection = format!("{kind} {slot} {}", first.address());
            second.behave(Manner::HasOnly(SECOND.to_owned(), redirection));
            let answers = servers.look_up(destination, &commands).await;
            assert_eq!(answers, Ok(vec![Value::Nil, has.clone(), Value::Nil]), "{kind}");
            assert_eq!(first.scripts() - before, 2, "{kind}");
            assert_eq!(first.asking(), 2, "{kind}");
        }
    });
}

#[test]
fn the_server_of_a_key_has_its_name_in_a_cluster() {
    run(async {
        let ([first, second], servers) = cluster().await;
        assert_eq!(servers.name(FIRST.as_bytes()), first.address().to_string());
        assert_eq!(servers.name(SECOND.as_bytes()), second.address().to_string());
    });
}

#[test]
fn two_nodes_that_redirect_to_each_other_do_not_delay_a_call() {
    run(async {
        let ([first, second], servers) = cluster().await;
        first.behave(Manner::error(&format!("MOVED 1 {}", second.address())));
        second.behave(Manner::error(&format!("MOVED 1 {}", first.address())));
        let (answer, waited) = timed(servers.ask(SECOND)).await;
        assert!(answer.is_err());
        assert!(waited < PATIENCE * 2, "{waited:?}");
        assert_eq!(first.scripts() + second.scripts(), 2);
    });
}

#[test]
fn a_fail_over_is_noticed_without_a_redirection() {
    run(async {
        let ([first, second], servers) = cluster().await;
        assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
        second.sleep(true);
        first.tell(&[(0, 16_383, &first)]);
        eventually("the other node is asked", async || servers.ask(SECOND).await.is_ok()).await;
        assert_eq!(servers.health().len(), 1, "the node without slots is removed");
    });
}

/// One node with all slots, which does not answer yet.
async fn sleeping_cluster() -> (FakeServer, Servers) {
    let node = FakeServer::start(Manner::Echo).await;
    node.tell(&[(0, 16_383, &node)]);
    node.sleep(true);
    let topology = Topology::Cluster(vec![node.address()]);
    let servers = Servers::connect(&settings(topology, PATIENCE), &*ECHO, &Outages::default());
    (node, servers)
}

#[test]
fn a_cluster_that_is_away_at_the_start_is_used_when_it_is_up() {
    run(async {
        let (node, servers) = sleeping_cluster().await;
        let (answer, waited) = timed(servers.ask(FIRST)).await;
        assert!(answer.is_err());
        assert!(waited < PATIENCE * 2, "{waited:?}");
        node.sleep(false);
        eventually("the server is used", async || servers.ask(FIRST).await.is_ok()).await;
    });
}

/// A gateway that has not seen its store makes no calls, so none can find the map wrong.
#[test]
fn a_cluster_that_is_away_at_the_start_is_found_without_a_call() {
    run(async {
        let (node, servers) = sleeping_cluster().await;
        servers.settled().await;
        assert!(!servers.is_up());
        node.sleep(false);
        let found = eventually("the server is found", async || servers.is_up());
        let ((), waited) = timed(found).await;
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    });
}

/// Each call for such a slot failed, and neither the log nor the status said why.
#[test]
fn slots_that_no_node_serves_are_reported_until_a_node_serves_them() {
    run(async {
        let node = FakeServer::start(Manner::Echo).await;
        node.tell(&[(0, 8191, &node)]);
        let topology = Topology::Cluster(vec![node.address()]);
        let outages = Outages::default();
        let servers = Servers::connect(&settings(topology, PATIENCE), &*ECHO, &outages);
        servers.settled().await;
        assert_eq!(servers.ask(FIRST).await, Ok("body".into()));
        assert_eq!(servers.ask(SECOND).await, Err(StoreError::Away));
        let all = outages.all();
        let [outage] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (&*outage.server, outage.cause),
            (&*node.address().to_string(), OutageCause::ClusterDown)
        );
        assert_eq!(
            outage.error,
            "the cluster does not serve all of its slots: it names nodes for 8192 of 16384 slots"
        );
        assert!(!servers.is_up());
        node.tell(&[(0, 16_383, &node)]);
        let found = eventually("all slots are served", async || servers.is_up());
        let ((), waited) = timed(found).await;
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        assert_eq!(outages.all(), []);
        assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
    });
}

#[test]
fn sentinels_are_asked_in_turn_and_again_after_a_fail_over() {
    run(async {
        let [old, new] =
            [FakeServer::start(Manner::Echo).await, FakeServer::start(Manner::Echo).await];
        let sentinels =
            [FakeServer::start(Manner::Echo).await, FakeServer::start(Manner::Echo).await];
        // The first sentinel does not know the master.
        sentinels[1].watch(&old);
        let addresses = sentinels.iter().map(FakeServer::address).collect();
        let master_name = "mymaster".to_owned();
        let servers = connected(Topology::Sentinel { sentinels: addresses, master_name }).await;
        assert_eq!(servers.ask("k").await, Ok("body".into()));
        assert_eq!((old.scripts(), new.scripts()), (1, 0));
        old.behave(Manner::error("READONLY You can't write against a read only replica."));
        sentinels[1].watch(&new);
        assert!(servers.ask("k").await.is_err());
        assert_eq!(servers.ask("k").await, Ok("body".into()));
        assert_eq!((old.scripts(), new.scripts()), (2, 1));
    });
}

#[test]
fn concurrent_calls_for_many_slots_get_their_own_replies() {
    run(async {
        let ([first, second], servers) = cluster().await;
        let servers = Rc::new(servers);
        let tasks: Vec<_> = (0..500)
            .map(|call| {
                let servers = Rc::clone(&servers);
                tokio::task::spawn_local(async move {
                    let key = format!("key{}", call % 100);
                    let body = call.to_string();
                    let destination = servers.destination(key.as_bytes());
                    servers.call(destination, asked(&key, &body), Repeat::Never).await
                        == Ok(body.into())
                })
            })
            .collect();
        for task in tasks {
            assert!(task.await.expect("no call panics"));
        }
        assert!(first.scripts() > 0 && second.scripts() > 0);
    });
}

/// The reply to a call is the number of calls on its key.
static COUNT: LazyLock<Network> = LazyLock::new(|| {
    let source = "local answers = {}
        for i, key in ipairs(KEYS) do answers[i] = tostring(redis.call('INCR', key)) end
        return answers";
    Network::running(Script::of(source))
});

#[test]
fn calls_are_sent_in_the_order_in_which_they_were_made() {
    run(async {
        let server = Process::start(&[]);
        let servers =
            Servers::connect(&settings(server.topology(), PATIENCE), &*COUNT, &Outages::default());
        servers.settled().await;
        let destination = servers.destination(b"k");
        let made: Vec<_> =
            (0..10_u8).map(|_| servers.call(destination, asked("k", ""), Repeat::Never)).collect();
        for (call, order) in made.into_iter().zip(1..=10_u8).rev() {
            assert_eq!(call.await, Ok(order.to_string().into()));
        }
    });
}

/// The servers, with three connections to each.
async fn with_three(topology: Topology, transport: AnyTransport) -> Servers {
    let mut settings = RedisSettings::clone(&settings(topology, PATIENCE));
    settings.connections = 3.try_into().expect("it is not zero");
    let servers = Servers::connect(&Rc::new(settings), transport, &Outages::default());
    servers.settled().await;
    servers
}

#[test]
fn keys_are_spread_over_connections_and_each_key_uses_one() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let servers = with_three(server.topology(), &*ECHO).await;
        eventually("all are connected", async || server.connections() == 3).await;
        let mut destinations: Vec<Destination> = (0..100)
            .map(|key| servers.destination(format!("tollgate:{key:x}").as_bytes()))
            .collect();
        assert_eq!(destinations[7], servers.destination(b"tollgate:7"));
        for key in 0..100 {
            assert_eq!(servers.ask(&format!("tollgate:{key:x}")).await, Ok("body".into()));
        }
        let answered: Vec<u64> = servers.health().iter().map(|it| it.answered).collect();
        assert!(answered.len() == 3 && answered.iter().all(|&it| it > 15), "{answered:?}");
        destinations.sort_unstable();
        destinations.dedup();
        assert_eq!(
            destinations,
            [0, 1, 2].map(|connection| Destination { server: 0, connection, slot: 0 })
        );
        // Commands for each server are sent once to each.
        assert_eq!(servers.one_link_each().len(), 1);
    });
}

#[test]
fn each_shard_has_connections_of_its_own_and_keeps_its_keys() {
    run(async {
        let shards = [Process::start(&[]), Process::start(&[])];
        let topology = Topology::Shards(shards.iter().map(Process::address).collect());
        let one = connected(topology.clone()).await;
        let three = with_three(topology, &*ECHO).await;
        for key in (0..50).map(|key| format!("key{key}")) {
            assert_eq!(
                one.destination(key.as_bytes()).server,
                three.destination(key.as_bytes()).server,
                "{key}"
            );
            assert_eq!(three.ask(&key).await, Ok("body".into()));
        }
        assert_eq!(three.one_link_each().len(), 2);
    });
}

#[test]
fn in_a_cluster_all_keys_of_a_slot_use_one_connection() {
    run(async {
        let (nodes, _) = cluster().await;
        let topology = Topology::Cluster(vec![nodes[0].address()]);
        let servers = with_three(topology, &*ECHO).await;
        for _ in 0..9 {
            assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
        }
        let answered: Vec<u64> = servers.health().iter().map(|it| it.answered).collect();
        assert_eq!(answered.len(), 6);
        assert_eq!(answered.iter().filter(|&&it| it > 0).count(), 1, "{answered:?}");
        assert_eq!(servers.one_link_each().len(), 2);
    });
}

#[test]
fn calls_on_one_key_stay_in_their_order_over_several_connections() {
    run(async {
        let server = Process::start(&[]);
        let servers = with_three(server.topology(), &*COUNT).await;
        let made: Vec<_> = (0..300_u16)
            .map(|call| {
                let key = format!("k{}", call % 30);
                let destination = servers.destination(key.as_bytes());
                (call / 30 + 1, servers.call(destination, asked(&key, ""), Repeat::Never))
            })
            .collect();
        for (order, call) in made.into_iter().rev() {
            assert_eq!(call.await, Ok(order.to_string().into()));
        }
    });
}

#[test]
fn the_number_of_connections_can_change_while_they_are_in_use() {
    run(async {
        let server = Process::start(&[]);
        let fixed = RedisSettings::clone(&settings(server.topology(), PATIENCE));
        let latest = Latest::new(fixed.clone());
        let live = LiveSettings::new(&latest, |settings| settings);
        let servers = Servers::following(live, &*COUNT, &Outages::default());
        servers.settled().await;
        let mut calls = 0;
        for connections in [4, 1, 3] {
            let connections = NonZeroU16::new(connections).expect("it is not zero");
            latest.set(RedisSettings { connections, ..fixed.clone() });
            let wanted = usize::from(connections.get());
            // A destination of before leads to the same server.
            let before = servers.destination(b"k2");
            eventually("the connections are these", async || {
                calls += 1;
                let answer = servers.call(before, asked("k2", ""), Repeat::Never).await;
                assert_eq!(answer, Ok(calls.to_string().into()));
                servers.health().len() == wanted
            })
            .await;
            let clients = server.command(&["CLIENT", "LIST"]);
            let clients = clients.lines().filter(|it| !it.contains("cmd=client"));
            assert!(clients.count() >= wanted);
        }
        assert_eq!(servers.health().iter().map(|it| it.failed).sum::<u64>(), 0);
    });
}

#[test]
fn the_number_of_connections_to_the_nodes_of_a_cluster_can_change() {
    run(async {
        let (nodes, _) = cluster().await;
        let topology = Topology::Cluster(vec![nodes[0].address()]);
        let fixed = RedisSettings::clone(&settings(topology, PATIENCE));
        let latest = Latest::new(fixed.clone());
        let live = LiveSettings::new(&latest, |settings| settings);
        let servers = Servers::following(live, &*ECHO, &Outages::default());
        servers.settled().await;
        for connections in [3, 1] {
            let connections = NonZeroU16::new(connections).expect("it is not zero");
            latest.set(RedisSettings { connections, ..fixed.clone() });
            let wanted = 2 * usize::from(connections.get());
            eventually("the connections are these", async || {
                assert_eq!(servers.ask(SECOND).await, Ok("body".into()));
                servers.health().len() == wanted
            })
            .await;
            assert_eq!(servers.one_link_each().len(), 2);
        }
    });
}
