//! A link to a real server, which also fails and comes back.

use std::rc::Rc;

use tokio::task::spawn_local;

use super::super::super::settings::Password;
use super::*;

async fn count(link: &Rc<Link>, calls: u32) -> u32 {
    let tasks: Vec<_> = (0..calls)
        .map(|call| {
            let link = Rc::clone(link);
            spawn_local(async move {
                let body = call.to_string();
                link.ask("count", &body).await.is_ok_and(|answer| answer == body)
            })
        })
        .collect();
    let mut answered = 0;
    for task in tasks {
        answered += u32::from(task.await.expect("no call panics"));
    }
    answered
}

#[test]
fn each_call_gets_its_own_reply_and_is_counted_once() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE * 10).await);
        assert_eq!(count(&link, 1000).await, 1000);
        assert_eq!(server.command(&["GET", "count"]), "1000");
        assert_eq!(link.health().failed, 0);
        // 1000 calls at once fill batches of 64.
        assert!(link.health().answered < 100, "{:?}", link.health());
    });
}

/// A server that has all slots of a cluster. It refuses the same calls as a proxy before a cluster.
async fn with_all_slots() -> Process {
    // Each server of a cluster needs a port for the others.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let port = port.expect("a port").port().to_string().leak();
    let server = Process::start(&["--cluster-enabled", "yes", "--cluster-port", port]);
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    eventually("it has all slots", async || server.command(&["SET", "up", "1"]) == "OK").await;
    server
}

#[test]
fn slots_behind_one_address_are_found_when_it_connects() {
    run(async {
        let server = with_all_slots().await;
        let link = Rc::new(linked(server.topology(), PATIENCE * 10).await);
        assert!(link.has_slots());
        let calls: Vec<_> = (0..200)
            .map(|call| {
                let link = Rc::clone(&link);
                let key = format!("key{}", call % 20);
                spawn_local(async move { link.ask(&key, "body").await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.expect("no call panics"), Ok("body".into()));
        }
        for key in 0..20 {
            assert_eq!(server.command(&["GET", &format!("key{key}")]), "10");
        }
        assert_eq!(link.health().failed, 0);
    });
}

#[test]
fn a_node_of_a_cluster_is_not_used_as_a_server_with_all_slots() {
    run(async {
        let server = with_all_slots().await;
        server.command(&["CLUSTER", "DELSLOTSRANGE", "8192", "16383"]);
        server.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        eventually("it has half of the slots", async || {
            server.command(&["SET", "bar", "1"]) == "OK"
                && !server.command(&["GET", "foo"]).is_empty()
        })
        .await;
        let link = linked(server.topology(), PATIENCE).await;
        assert_eq!(link.position(), Position::Open);
        server.command(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
        eventually("it is used", async || link.ask("k", "b").await.is_ok()).await;
        assert!(link.has_slots());
    });
}

#[test]
fn a_caller_that_stops_waiting_does_not_disturb_others() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE * 10).await);
        let hasty: Vec<_> = (0..100)
            .map(|_| {
                let link = Rc::clone(&link);
                spawn_local(async move { link.ask("hasty", "x").await })
            })
            .collect();
        let patient = spawn_local({
            let link = Rc::clone(&link);
            async move { count(&link, 100).await }
        });
        for caller in hasty {
            caller.abort();
            tokio::task::yield_now().await;
        }
        assert_eq!(patient.await.expect("the task does not panic"), 100);
        assert_eq!(server.command(&["GET", "count"]), "100");
    });
}

#[test]
fn a_flushed_script_is_loaded_again_and_no_call_is_counted_twice() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE * 10).await);
        for _ in 0..5 {
            server.command(&["SCRIPT", "FLUSH"]);
            assert_eq!(count(&link, 200).await, 200);
        }
        assert_eq!(server.command(&["GET", "count"]), "1000");
        assert_eq!(link.health().failed, 0);
    });
}

#[test]
fn an_idle_connection_that_the_server_closed_costs_at_most_one_call() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE).await);
        assert_eq!(count(&link, 1).await, 1);
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        let _ = link.ask("other", "x").await;
        assert_eq!(count(&link, 10).await, 10);
        assert_eq!(link.health().times_opened, 0);
    });
}

#[test]
fn a_server_that_dies_is_given_up_at_once_and_used_when_it_is_back() {
    run(async {
        let mut server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE).await);
        assert_eq!(count(&link, 10).await, 10);
        server.kill();
        let (_, waited) =
            timed(async { (link.ask("k", "b").await, link.ask("k", "b").await) }).await;
        assert!(waited < PATIENCE, "{waited:?}");
        eventually("the server is given up", async || link.position() == Position::Open).await;
        let (answer, waited) = timed(link.ask("k", "b")).await;
        assert_eq!(answer, Err(StoreError::Away));
        assert!(waited < SHORT / 2, "{waited:?}");
        server.restart();
        let (_, waited) = timed(eventually("the server is used again", async || {
            link.ask("k", "b").await.is_ok()
        }))
        .await;
        assert!(waited < Duration::from_secs(2), "{waited:?}");
        assert_eq!(link.health().times_opened, 1);
    });
}

/// The worker does not run, as on a machine without CPU time for it, until the server has
/// answered and the time limit has passed.
#[test]
fn a_reply_that_came_while_the_worker_did_not_run_is_returned() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), SHORT).await);
        eventually("it answers", async || count(&link, 1).await == 1).await;
        for round in 1..=5 {
            let asking = Rc::clone(&link);
            let asking = spawn_local(async move { asking.ask("still", "b").await });
            // The call is sent.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            while server.command(&["GET", "still"]) != round.to_string() {}
            std::thread::sleep(SHORT * 2);
            assert_eq!(asking.await.expect("the task does not panic"), Ok("b".into()), "{round}");
        }
        assert_eq!(link.health().failed, 0);
    });
}

#[test]
fn a_frozen_server_delays_no_call_beyond_the_timeout() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), SHORT).await);
        eventually("it answers", async || count(&link, 1).await == 1).await;
        server.signal("STOP");
        eventually("the server is given up", async || {
            let (answer, waited) = timed(link.ask("k", "b")).await;
            assert!(answer.is_err());
            assert!(waited < SHORT * 2, "{waited:?}");
            link.position() == Position::Open
        })
        .await;
        server.signal("CONT");
        let (_, waited) = timed(eventually("the server is used again", async || {
            link.ask("k", "b").await.is_ok()
        }))
        .await;
        assert!(waited < Duration::from_secs(2), "{waited:?}");
    });
}

#[test]
fn a_master_that_becomes_a_replica_is_not_used_until_it_is_a_master_again() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE).await);
        assert_eq!(count(&link, 1).await, 1);
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        eventually("the server is given up", async || {
            assert!(link.ask("k", "b").await.is_err());
            link.position() == Position::Open
        })
        .await;
        server.command(&["REPLICAOF", "NO", "ONE"]);
        eventually("the server is used again", async || link.ask("k", "b").await.is_ok()).await;
    });
}

#[test]
fn a_server_without_memory_is_away() {
    run(async {
        let server = Process::start(&[]);
        let link = Rc::new(linked(server.topology(), PATIENCE).await);
        assert_eq!(count(&link, 1).await, 1);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let answer = link.ask("k", "b").await;
        let full = matches!(
            answer,
            Err(StoreError::Refused(Refusal::Unusable(OutageCause::MemoryFull), _))
        );
        assert!(full, "{answer:?}");
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        eventually("the server is used again", async || link.ask("k", "b").await.is_ok()).await;
    });
}

#[test]
fn a_correct_password_connects_and_a_wrong_one_does_not() {
    run(async {
        let server = Process::start(&["--requirepass", "open sesame"]);
        let with = |password: &str| {
            let mut settings = (*settings(server.topology(), PATIENCE)).clone();
            settings.credentials.password = Some(Password::new(password));
            Link::new(
                Rc::new(settings),
                &*ECHO,
                Target::Fixed(server.address()),
                &Outages::default(),
            )
        };
        assert_eq!(with("open sesame").ask("k", "b").await, Ok("b".into()));
        let wrong = with("open wheat");
        wrong.settled().await;
        assert_eq!(wrong.ask("k", "b").await, Err(StoreError::Away));
    });
}
