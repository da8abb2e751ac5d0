//! Each way in which Redis is there and does not count: the log, the status, the metrics and
//! `/readyz` name the cause and the remedy, from the start on and while the gateway runs, and the
//! end of the fault is noticed.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use super::{AdminClient, METRICS, READ, settles, statuses};
use crate::support::Gateway;
use crate::support::load::is_local;
use crate::support::redis::{Cluster, Options, Redis};

/// A fault of a server: commands that begin and end it, its cause, and a part of its remedy.
struct Fault {
    begin: &'static [&'static str],
    end: &'static [&'static str],
    cause: &'static str,
    remedy: &'static str,
}

const FAULTS: [Fault; 6] = [
    Fault {
        begin: &["ACL SETUSER tg resetkeys ~other:*"],
        end: &["ACL SETUSER tg allkeys"],
        cause: "key_forbidden",
        remedy: "ACL SETUSER tg ~tollgate:*",
    },
    Fault {
        begin: &["ACL SETUSER tg -hset"],
        end: &["ACL SETUSER tg +hset"],
        cause: "command_forbidden",
        remedy: "+hset",
    },
    Fault {
        begin: &["ACL SETUSER tg -eval -evalsha"],
        end: &["ACL SETUSER tg +eval +evalsha"],
        cause: "command_forbidden",
        remedy: "+evalsha",
    },
    Fault {
        begin: &["CONFIG SET maxmemory 1"],
        end: &["CONFIG SET maxmemory 0"],
        cause: "memory_full",
        remedy: "raise maxmemory",
    },
    Fault {
        begin: &["CONFIG SET min-replicas-to-write 1"],
        end: &["CONFIG SET min-replicas-to-write 0"],
        cause: "too_few_replicas",
        remedy: "min-replicas-to-write 0",
    },
    Fault {
        begin: &["ACL SETUSER tg resetpass >other", "CLIENT KILL USER tg"],
        end: &["ACL SETUSER tg resetpass >ab"],
        cause: "password_wrong",
        remedy: "the password with that of the user tg",
    },
];

fn server() -> Redis {
    Redis::start(Options { lines: vec!["user tg on >ab ~* +@all".into()], ..Options::default() })
}

fn run(redis: &Redis, commands: &[&str]) {
    for command in commands {
        // The number of connections that were closed may be 0.
        let words: Vec<&str> = command.split(' ').collect();
        redis.cli(&words);
    }
}

fn yaml(url: &str) -> String {
    super::yaml(&format!("store: {{ redis: {{ url: \"{url}\", timeout: 1s }} }}"), "")
}

fn gateway(redis: &Redis) -> Gateway {
    Gateway::start(&yaml(&redis.url().replace("redis://", "redis://tg:ab@")))
}

/// Requests of clients of whom Redis knows nothing, so that they would be counted.
fn requests(gateway: &Gateway) -> Vec<u16> {
    let of = |_| statuses(gateway, &format!("c{}", fastrand::u64(..)), 1)[0];
    (0..4).map(of).collect()
}

/// Waits until the store decides.
fn decides(gateway: &Gateway) {
    settles("the store decides", || {
        let mut connection = gateway.client();
        (0..4).all(|_| {
            let new = format!("X-Who: c{}", fastrand::u64(..));
            !is_local(&connection.get("/", &[&new]))
        })
    });
}

/// All places name the cause.
fn is_told(gateway: &Gateway, cause: &str, remedy: &str) {
    settles(&format!("the status names {cause}"), || {
        requests(gateway);
        let status = AdminClient::new(gateway, READ).get("/v1/status").json();
        let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
        reasons.iter().any(|reason| {
            reason["code"] == "store_away"
                && reason["text"].as_str().is_some_and(|it| it.contains(remedy))
        })
    });
    settles("readyz names it, and is ready", || {
        let ready = AdminClient::without_token(gateway).get("/readyz");
        let without = &ready.json()["without"][0];
        ready.status == 200 && without["code"] == "store_away" && without["cause"] == cause
    });
    let metrics = AdminClient::new(gateway, METRICS).get("/metrics").text().to_owned();
    let is_counted = |line: &&str| {
        line.starts_with("tollgate_store_away{") && line.contains(&format!("cause=\"{cause}\""))
    };
    assert!(metrics.lines().any(|line| is_counted(&line)), "{metrics}");
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains(cause) && line.contains("Redis is"));
    assert!(line.is_some_and(|line| line.contains("WARN") && line.contains(remedy)), "{log}");
    // Whatever was asked for and tried meanwhile, the log has one line, and one more if a better
    // cause was found.
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("Redis is away"), 1, "{log}");
    assert!(lines("Redis is still away") <= 1, "{log}");
    assert!(!log.contains(":ab@") && !log.contains("'ab'"), "{log}");
}

/// The end of the fault is noticed without a request, and said once.
fn has_ended(gateway: &Gateway) {
    settles("the status does not name the store", || {
        let status = AdminClient::new(gateway, READ).get("/v1/status").json();
        let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
        reasons.iter().all(|reason| reason["code"] != "store_away")
    });
    let log = gateway.log();
    let lines = log.lines().filter(|line| line.contains("Redis decides")).count();
    assert_eq!(lines, 1, "{log}");
    let ready = AdminClient::without_token(gateway).get("/readyz").json();
    assert!(ready["without"].is_null(), "{ready}");
    let metrics = AdminClient::new(gateway, METRICS).get("/metrics").text().to_owned();
    assert!(!metrics.contains("tollgate_store_away{"), "{metrics}");
}

#[test]
fn a_server_that_refuses_from_the_start_on_is_named_with_its_remedy() {
    for fault in &FAULTS {
        let redis = server();
        run(&redis, fault.begin);
        let gateway = gateway(&redis);
        is_told(&gateway, fault.cause, fault.remedy);
        run(&redis, fault.end);
        has_ended(&gateway);
    }
}

#[test]
fn a_server_that_refuses_while_the_gateway_runs_is_named_with_its_remedy() {
    for fault in &FAULTS {
        let redis = server();
        let gateway = gateway(&redis);
        decides(&gateway);
        run(&redis, fault.begin);
        is_told(&gateway, fault.cause, fault.remedy);
        run(&redis, fault.end);
        has_ended(&gateway);
    }
}

/// Requests that are refused for want of the store have the same cause in the status.
#[test]
fn a_policy_that_denies_without_its_store_has_the_cause_in_the_status() {
    let redis = server();
    run(&redis, FAULTS[0].begin);
    let url = redis.url().replace("redis://", "redis://tg:ab@");
    let yaml = yaml(&url).replace("limit: 3/day", "limit: 3/day, on_store_failure: deny");
    let gateway = Gateway::start(&yaml);
    assert_eq!(requests(&gateway), [503; 4]);
    is_told(&gateway, FAULTS[0].cause, FAULTS[0].remedy);
    run(&redis, FAULTS[0].end);
    has_ended(&gateway);
    assert_eq!(requests(&gateway), [200; 4]);
}

#[test]
fn a_server_that_is_not_redis_is_named() {
    let web = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis://{}", web.local_addr().expect("it listens"));
    thread::spawn(move || {
        for mut stream in web.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = Gateway::start(&yaml(&url));
    is_told(&gateway, "not_redis", "see whether Redis listens on this port");
}

#[test]
fn a_missing_password_is_named() {
    let redis = Redis::start(Options { password: Some("hunter2"), ..Options::default() });
    let gateway = Gateway::start(&yaml(&redis.url()));
    is_told(&gateway, "password_missing", "store.redis.password");
}

#[test]
fn a_node_of_a_cluster_that_a_url_of_one_server_names_is_named() {
    let cluster = Cluster::start();
    for node in cluster.masters() {
        let gateway = Gateway::start(&yaml(&node.url()));
        is_told(&gateway, "cluster_node", "redis+cluster://");
    }
}

#[test]
fn a_single_server_that_a_url_of_a_cluster_names_is_named() {
    let redis = Redis::start(Options::default());
    let gateway = Gateway::start(&yaml(&redis.url().replace("redis://", "redis+cluster://")));
    is_told(&gateway, "no_cluster", "write redis://");
}

/// A value of another program under the prefix keeps this node from counting.
#[test]
fn data_of_another_program_under_the_prefix_are_named() {
    let redis = server();
    redis.cli(&["SET", "tollgate:meta:secret", "not a secret"]);
    let gateway = gateway(&redis);
    is_told(&gateway, "foreign_data", "under tollgate:");
    redis.cli(&["DEL", "tollgate:meta:secret"]);
    has_ended(&gateway);
}

/// Redis decides for all other clients meanwhile.
#[test]
fn foreign_data_under_a_key_is_named_and_harms_its_clients_only() {
    let redis = server();
    let url = redis.url().replace("redis://", "redis://tg:ab@");
    let gateway = Gateway::start(&yaml(&url).replace("[each, open]", "[each]"));
    decides(&gateway);
    redis.cli(&["FLUSHALL"]);
    assert_eq!(statuses(&gateway, "ann", 1), [200]);
    let keys = redis.cli(&["KEYS", "*"]);
    let key = keys.lines().find(|key| !key.contains(":meta:")).expect("the counter of ann");
    redis.cli(&["SET", key, "data of another program"]);
    // What Redis has counted before is not forgotten.
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 429, 429]);
    let counted = || redis.cli(&["DBSIZE"]).trim().parse::<u64>().expect("a number");
    let before = counted();
    assert_eq!(requests(&gateway), [200; 4]);
    assert!(counted() > before, "Redis counts other clients");
    settles("the status names the cause", || {
        let status = AdminClient::new(&gateway, READ).get("/v1/status").json();
        let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
        let text = "a key under the prefix has data of another program";
        reasons.iter().any(|it| {
            it["code"] == "store_calls_fail"
                && it["text"].as_str().is_some_and(|it| it.contains(text))
        })
    });
    let metrics = AdminClient::new(&gateway, METRICS).get("/metrics").text().to_owned();
    let start = "tollgate_store_call_errors_total{cause=\"foreign_data\"";
    let line = metrics.lines().find(|line| line.starts_with(start)).expect("it is counted");
    assert!(!line.ends_with(" 0"), "{line}");
    let log = gateway.log();
    let lines: Vec<&str> = log.lines().filter(|it| it.contains("a call to Redis fails")).collect();
    let [line] = lines[..] else { panic!("once a minute: {log}") };
    for part in ["WARN", key, "foreign_data", "WRONGTYPE", "delete the key"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!log.contains("Redis is away"), "{log}");
}

/// New credentials that Redis does not accept are in the log, the status and a metric. The old
/// connections decide meanwhile.
#[test]
fn refused_credentials_are_told_and_the_connections_stay() {
    let redis = server();
    let with =
        |password: &str| yaml(&redis.url().replace("redis://", &format!("redis://tg:{password}@")));
    let gateway = Gateway::start(&with("ab"));
    settles("Redis decides", || requests(&gateway).iter().all(|status| *status == 200));
    gateway.reload(&with("cd"));
    let reasons = || {
        let status = AdminClient::new(&gateway, READ).get("/v1/status").json();
        let mut reasons = status["reasons"].as_array().cloned().unwrap_or_default();
        // A busy machine takes long for decisions, too.
        reasons.retain(|reason| reason["code"] != "slow_decisions");
        reasons
    };
    settles("the status names it", || {
        requests(&gateway);
        reasons().iter().any(|reason| {
            reason["code"] == "store_credentials_refused"
                && reason["text"].as_str().is_some_and(|it| it.contains("compare the password"))
        })
    });
    assert_eq!(reasons().len(), 1, "the store is in use: {:?}", reasons());
    let metrics = AdminClient::new(&gateway, METRICS).get("/metrics").text().to_owned();
    let is_counted = |line: &str| {
        line.starts_with("tollgate_store_renewals_refused{") && line.contains("password_wrong")
    };
    assert!(metrics.lines().any(is_counted), "{metrics}");
    let log = gateway.log();
    assert_eq!(
        log.matches("cannot be used; the connections with the old ones").count(),
        1,
        "{log}"
    );
    assert!(!log.contains(":cd@") && !log.contains("'cd'") && !log.contains("Redis is"), "{log}");
    // Redis learns the password.
    run(&redis, &["ACL SETUSER tg resetpass >cd"]);
    settles("the end is noticed", || reasons().is_empty());
    run(&redis, &["CLIENT KILL USER tg"]);
    settles("it connects with it", || requests(&gateway).iter().all(|status| *status == 200));
    assert!(!gateway.log().contains("Redis is away"), "{}", gateway.log());
}

/// The metrics say how a server differs from others.
#[test]
fn a_server_with_slots_behind_one_address_is_named_in_a_metric() {
    let redis = Redis::start_with_slots(Options::default());
    let gateway = Gateway::start(&yaml(&redis.url()));
    settles("a metric names it", || {
        let metrics = AdminClient::new(&gateway, METRICS).get("/metrics").text().to_owned();
        let is_named = |line: &str| {
            line.starts_with("tollgate_store_differs{") && line.contains("how=\"slots\"")
        };
        metrics.lines().any(is_named)
    });
}
