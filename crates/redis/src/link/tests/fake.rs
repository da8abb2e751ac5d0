//! A link to a server that misbehaves. Limits on time are generous upper bounds, because the
//! machine may be busy.

use super::super::super::settings::{Address, Topology};
use super::*;

#[test]
fn calls_to_a_stalled_server_time_out_and_soon_are_not_sent() {
    run(async {
        let server = FakeServer::start(Manner::Stall).await;
        let link = linked(server.topology(), SHORT).await;
        let mut sent = 0;
        while link.position() != Position::Open {
            let (answer, waited) = timed(link.ask("k", "b")).await;
            assert_eq!(answer, Err(StoreError::Timeout));
            assert!(waited < SHORT * 2, "{waited:?}");
            sent += 1;
            // The batch is given up a moment after its callers.
            tokio::task::yield_now().await;
            assert!(sent <= 6, "the breaker never opens");
        }
        let before = server.scripts();
        let (answer, waited) = timed(link.ask("k", "b")).await;
        assert_eq!(answer, Err(StoreError::Away));
        assert!(waited < SHORT / 2, "{waited:?}");
        assert_eq!(server.scripts(), before);
    });
}

#[test]
fn a_server_that_answers_again_is_used_again() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let link = linked(server.topology(), SHORT).await;
        eventually("a reply", async || link.ask("k", "b").await.is_ok()).await;
        server.sleep(true);
        eventually("the server is given up", async || {
            let _ = link.ask("k", "b").await;
            link.position() == Position::Open
        })
        .await;
        server.sleep(false);
        eventually("the server is used again", async || link.ask("k", "b").await.is_ok()).await;
        assert!(link.is_up());
    });
}

#[test]
fn a_refusal_is_reported_with_its_kind_and_counts_as_a_failure() {
    let cases = [
        ("LOADING Redis is loading the dataset in memory", Refusal::Unusable(OutageCause::Loading)),
        ("CLUSTERDOWN Hash slot not served", Refusal::Unusable(OutageCause::ClusterDown)),
        ("MASTERDOWN Link with MASTER is down", Refusal::Unusable(OutageCause::MasterDown)),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Refusal::TryAgain),
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            Refusal::Unusable(OutageCause::MemoryFull),
        ),
        ("BUSY Redis is busy running a script.", Refusal::Unusable(OutageCause::Busy)),
        ("NOAUTH Authentication required.", Refusal::Unusable(OutageCause::PasswordMissing)),
        ("NOPERM this user has no permissions", Refusal::Unusable(OutageCause::CommandForbidden)),
        ("ERR something else", Refusal::Other),
    ];
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        for (line, expected) in cases {
            server.behave(Manner::Echo);
            let link = linked(server.topology(), PATIENCE).await;
            assert_eq!(link.ask("k", "b").await, Ok("b".into()));
            server.behave(Manner::error(line));
            for _ in 0..3 {
                assert_eq!(link.position(), Position::Closed, "{line}");
                match link.ask("k", "b").await {
                    Err(StoreError::Refused(refusal, _)) => assert_eq!(refusal, expected),
                    other => panic!("{line}: {other:?}"),
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(link.position(), Position::Open, "{line}");
        }
    });
}

/// A slot that is moving refuses calls with several keys, and the other slots of the same server
/// decide. Such calls used to open the breaker for all slots of the server.
#[test]
fn a_slot_that_is_moving_is_no_failure_of_a_node_of_a_cluster() {
    run(async {
        let line = "TRYAGAIN Multiple keys request during rehashing of slot";
        let server = FakeServer::start(Manner::error(line)).await;
        let target = Target::InCluster(server.address(), 5);
        let settings = settings(server.topology(), PATIENCE);
        let link = Link::new(settings, &*ECHO, target, &Outages::default());
        link.settled().await;
        for _ in 0..5 {
            let Err(StoreError::Refused(refusal, _)) = link.ask("k", "b").await else {
                panic!("the call was not refused");
            };
            assert_eq!(refusal, Refusal::TryAgain);
            tokio::task::yield_now().await;
        }
        // The same among the replies of a batch.
        server.behave(Manner::Bytes(format!("*2\r\n$1\r\na\r\n-{line}\r\n")));
        let (first, second) = tokio::join!(link.ask("k", "a"), link.ask("k", "b"));
        assert!(first.is_ok() && second.is_err(), "{first:?}, {second:?}");
        tokio::task::yield_now().await;
        let health = link.health();
        assert_eq!((health.position, health.failed), (Position::Closed, 0), "{health:?}");
        assert_eq!(health.call_errors.values().sum::<u64>(), 6, "{health:?}");
    });
}

/// The error of one reply says nothing about the other calls in the batch.
#[test]
fn an_error_in_a_batch_is_that_of_one_call_unless_it_concerns_the_server() {
    run(async {
        for (line, expected, counts) in [
            ("WRONGTYPE Operation against a key of another kind", Refusal::Other, false),
            ("READONLY You can't write against a read only replica.", Refusal::ReadOnly, true),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Refusal::Unusable(OutageCause::MemoryFull),
                true,
            ),
        ] {
            let server = FakeServer::start(Manner::Echo).await;
            let link = linked(server.topology(), PATIENCE).await;
            server.behave(Manner::Bytes(format!("*2\r\n$1\r\na\r\n-{line}\r\n")));
            let (first, second) = tokio::join!(link.ask("k", "a"), link.ask("k", "b"));
            assert_eq!(first, Ok("a".into()), "{line}");
            match second {
                Err(StoreError::Refused(refusal, _)) => assert_eq!(refusal, expected),
                other => panic!("{line}: {other:?}"),
            }
            assert_eq!(link.health().failed > 0, counts, "{line}: {:?}", link.health());
        }
    });
}

#[test]
fn a_redirection_names_the_other_node_and_is_no_failure() {
    run(async {
        let server = FakeServer::start(Manner::error("MOVED 5 10.0.0.9:7001")).await;
        let target = Target::InCluster(server.address(), 5);
        let settings = settings(server.topology(), PATIENCE);
        let link = Link::new(settings, &*ECHO, target, &Outages::default());
        link.settled().await;
        let there = Address::tcp("10.0.0.9", 7001);
        for _ in 0..5 {
            let Err(StoreError::Refused(refusal, _)) = link.ask("k", "b").await else {
                panic!("the call was not refused");
            };
            assert_eq!(refusal, Refusal::Moved(there.clone()));
        }
        server.behave(Manner::error("ASK 5 10.0.0.9:7001"));
        let Err(StoreError::Refused(refusal, _)) = link.ask("k", "b").await else {
            panic!("the call was not refused");
        };
        assert_eq!(refusal, Refusal::Ask(there));
        assert_eq!(link.position(), Position::Closed);
    });
}

/// As a server that is replaced by a proxy before a cluster.
#[test]
fn calls_that_cross_slots_are_sent_again_by_slot_and_the_server_stays_in_use() {
    run(async {
        let server = FakeServer::start(Manner::EchoBySlot).await;
        let link = linked(server.topology(), PATIENCE).await;
        assert!(!link.has_slots(), "its test write succeeds");
        let mut calls: Vec<_> =
            ["a", "b", "a", "c"].iter().map(|key| link.begin(key, key, Repeat::Never)).collect();
        for (call, body) in calls.drain(..).zip(["a", "b", "a", "c"]) {
            assert_eq!(call.await, Ok(body.into()));
        }
        assert!(link.has_slots());
        assert_eq!(server.scripts(), 1 + 3, "all at once, and then one for each slot");
        let (first, second) = tokio::join!(link.ask("a", "1"), link.ask("b", "2"));
        assert_eq!((first, second), (Ok("1".into()), Ok("2".into())));
        assert_eq!(server.scripts(), 6);
        let health = link.health();
        assert_eq!((health.failed, health.call_errors.len()), (0, 0), "{health:?}");
    });
}

/// Its slots are not those of Redis.
#[test]
fn a_call_that_crosses_slots_alone_fails_and_says_so() {
    run(async {
        let line = "CROSSSLOT Keys in request don't hash to the same slot";
        let server = FakeServer::start(Manner::error(line)).await;
        let link = linked(server.topology(), PATIENCE).await;
        for calls in [2, 3, 4] {
            let answer = link.ask("k", "b").await;
            assert!(matches!(&answer, Err(error) if error.is_cross_slot()), "{answer:?}");
            assert_eq!(server.scripts(), calls, "only the first call is sent twice");
        }
        assert_eq!(link.position(), Position::Closed);
        assert_eq!(link.health().call_errors[&OutageCause::ClusterNode], 3);
    });
}

#[test]
fn an_unknown_script_is_loaded_and_called_again_once() {
    run(async {
        let server = FakeServer::start(Manner::error("NOSCRIPT No matching script.")).await;
        let link = linked(server.topology(), PATIENCE).await;
        let Err(StoreError::Refused(Refusal::NoScript, _)) = link.ask("k", "b").await else {
            panic!("the call was not refused");
        };
        assert_eq!(server.scripts(), 2);
    });
}

#[test]
fn an_invalid_reply_is_a_failure_and_closes_the_connection() {
    let cases = [
        ":1\r\n",
        "$1\r\nb\r\n",
        "*0\r\n",
        "*2\r\n$1\r\nb\r\n$1\r\nb\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n*0\r\n",
        "?\r\n",
        "*1\r\n$x\r\n",
    ];
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        for invalid in cases {
            server.behave(Manner::Echo);
            let link = linked(server.topology(), PATIENCE).await;
            let before = server.connections();
            server.behave(Manner::Bytes(invalid.to_owned()));
            let answer = link.ask("k", "b").await;
            // Invalid protocol breaks the connection.
            let told = matches!(answer, Err(StoreError::InvalidReply(_) | StoreError::Lost(_)));
            assert!(told, "{invalid:?}: {answer:?}");
            server.behave(Manner::Echo);
            eventually("a new connection", async || server.connections() > before).await;
            eventually("a reply", async || link.ask("k", "b").await.is_ok()).await;
        }
    });
}

#[test]
fn a_connection_that_closes_fails_its_calls_and_is_replaced() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let link = linked(server.topology(), PATIENCE).await;
        assert_eq!(link.ask("k", "b").await, Ok("b".into()));
        server.behave(Manner::Close);
        let sent = server.scripts();
        let (answer, waited) = timed(link.ask("k", "b")).await;
        assert!(matches!(answer, Err(StoreError::Lost(_))), "{answer:?}");
        assert!(waited < PATIENCE, "{waited:?}");
        assert_eq!(
            server.scripts(),
            sent + 1,
            "a call that may have been counted is not sent again"
        );
        server.behave(Manner::Echo);
        assert_eq!(link.ask("k", "b").await, Ok("b".into()), "the next waits for a connection");
        assert_eq!(link.health().times_opened, 0);
    });
}

#[test]
fn a_call_that_may_be_repeated_is_sent_again_once_when_its_connection_breaks() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let link = linked(server.topology(), PATIENCE).await;
        let ask = |body| link.begin("k", body, Repeat::IfLost);
        assert_eq!(ask("a").await, Ok("a".into()));
        let sent = server.scripts();
        server.behave(Manner::CloseOnce);
        assert_eq!(ask("b").await, Ok("b".into()));
        assert_eq!(server.scripts(), sent + 2);
        server.behave(Manner::Close);
        let answer = ask("c").await;
        assert!(matches!(answer, Err(StoreError::Lost(_))), "{answer:?}");
        assert_eq!(server.scripts(), sent + 4, "not a third time");
    });
}

#[test]
fn connections_that_close_while_idle_are_replaced_without_a_call() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let link = linked(server.topology(), PATIENCE).await;
        let connections = || link.shared.state.borrow().connections;
        for round in 1..10 {
            assert_eq!(connections(), round);
            server.close_all();
            eventually("a new connection", async || connections() > round).await;
        }
        assert_eq!(link.ask("k", "b").await, Ok("b".into()));
        assert_eq!((server.scripts(), link.health().times_opened), (1, 0));
    });
}

#[test]
fn a_master_that_becomes_a_replica_is_left_and_the_master_is_found_again() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let link = linked(server.topology(), PATIENCE).await;
        assert_eq!(link.ask("k", "b").await, Ok("b".into()));
        let before = server.connections();
        server.behave(Manner::error("READONLY You can't write against a read only replica."));
        let Err(StoreError::Refused(Refusal::ReadOnly, _)) = link.ask("k", "b").await else {
            panic!("the call was not refused");
        };
        server.behave(Manner::Echo);
        assert_eq!(link.ask("k", "b").await, Ok("b".into()));
        assert!(server.connections() > before);
    });
}

#[test]
fn a_server_that_is_away_at_the_start_delays_no_call_and_is_used_when_it_is_up() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        server.sleep(true);
        let Address::Tcp { .. } = server.address() else { panic!("it has a port") };
        let topology = server.topology();
        let Topology::Standalone(address) = topology.clone() else { panic!("it is one server") };
        let link = Link::new(
            settings(topology, SHORT),
            &*ECHO,
            Target::Fixed(address),
            &Outages::default(),
        );
        let (answer, waited) = timed(link.ask("k", "b")).await;
        assert!(matches!(answer, Err(StoreError::NotSent | StoreError::Away)), "{answer:?}");
        assert!(waited < SHORT * 2, "{waited:?}");
        tokio::task::yield_now().await;
        link.settled().await;
        let (answer, waited) = timed(link.ask("k", "b")).await;
        assert_eq!(answer, Err(StoreError::Away));
        assert!(waited < SHORT / 2, "{waited:?}");
        server.sleep(false);
        eventually("the server is used", async || link.ask("k", "b").await.is_ok()).await;
    });
}

#[test]
fn a_half_open_connection_is_detected_without_a_call() {
    run(async {
        let server = FakeServer::start(Manner::Echo).await;
        let link = linked(server.topology(), SHORT).await;
        eventually("a reply", async || link.ask("k", "b").await.is_ok()).await;
        let sent = server.scripts();
        server.sleep(true);
        eventually("the server is given up", async || link.position() == Position::Open).await;
        assert_eq!(server.scripts(), sent, "no call was needed to detect it");
    });
}
