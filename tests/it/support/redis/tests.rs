//! The servers and the wire work as the tests that use them expect.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::{Cluster, Fault, LOOPBACK, Options, Redis, Sentinels, Wire};
use crate::support::{Certificates, eventually, now};

/// A connection through the wire.
struct Caller(TcpStream);

impl Caller {
    fn new(wire: &Wire) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, wire.port())).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("it is not zero");
        Self(stream)
    }

    /// The answer to a PING. Empty if the connection is closed; none if no answer comes.
    fn ping(&mut self) -> Option<Vec<u8>> {
        let _ = self.0.write_all(b"PING\r\n");
        let mut answer = [0; 64];
        match self.0.read(&mut answer) {
            Ok(count) => Some(answer[..count].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Some(Vec::new()),
            Err(_) => None,
        }
    }
}

#[test]
fn a_killed_server_loses_its_data_and_a_stopped_one_does_not() {
    let mut redis = Redis::start(Options::default());
    redis.cli(&["SET", "a", "1"]);
    redis.stop();
    redis.cont();
    assert_eq!(redis.cli(&["GET", "a"]), "1");
    redis.kill();
    assert!(redis.try_cli(&["PING"]).is_err());
    redis.restart();
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
    assert_eq!(redis.info("no_such_thing"), None);
}

#[test]
fn a_server_accepts_connections_by_its_options() {
    let lines = vec!["maxmemory 64mb".to_owned(), "user ann on >pass ~t:* +@all".to_owned()];
    let tls = Some(Arc::new(Certificates::temporary(LOOPBACK)));
    let options = Options { password: Some("secret"), tls, lines, ..Options::default() };
    let redis = Redis::start(options);
    assert_eq!(redis.cli(&["CONFIG", "GET", "maxmemory"]), "maxmemory\n67108864");
    assert!(redis.cli(&["ACL", "LIST"]).contains("user ann on"));
    let mut plain = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port())).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"+PONG"), "plain text is not understood");
    assert!(redis.certificates().ca().exists());
    assert!(redis.socket().exists() && redis.url().starts_with("rediss://"));
}

#[test]
fn a_wire_has_every_fault_and_recovers() {
    let redis = Redis::start(Options::default());
    let wire = Wire::to(redis.port());
    let pong = Some(b"+PONG\r\n".to_vec());
    let mut caller = Caller::new(&wire);
    assert_eq!(caller.ping(), pong);
    let delay = Duration::from_millis(50);
    wire.set(Fault::Delay(delay));
    let start = now();
    assert_eq!(caller.ping(), pong);
    assert!(start.elapsed() >= delay);
    wire.set(Fault::Garbage);
    assert_ne!(caller.ping(), pong);
    wire.set(Fault::Swallow);
    assert_eq!(caller.ping(), None, "the connection stays open without an answer");
    wire.set(Fault::Cut);
    eventually("the connection is closed", || caller.ping() == Some(Vec::new()));
    assert_eq!(Caller::new(&wire).ping(), Some(Vec::new()), "new connections are closed, too");
    wire.set(Fault::None);
    assert_eq!(Caller::new(&wire).ping(), pong);
}

#[test]
fn sentinels_promote_the_replica_of_a_dead_master() {
    let mut sentinels = Sentinels::start();
    sentinels.master.cli(&["SET", "a", "1"]);
    assert!(sentinels.url().starts_with("redis+sentinel://127.0.0.1:"));
    sentinels.master.kill();
    sentinels.wait_for_promotion();
    sentinels.replica.cli(&["SET", "b", "1"]);
}

#[test]
fn a_cluster_moves_slots_and_replaces_dead_masters() {
    let mut cluster = Cluster::start();
    assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));
    let slots_of_first = |cluster: &Cluster| {
        let nodes = cluster.masters().next().unwrap().cli(&["CLUSTER", "NODES"]);
        let own = nodes.lines().find(|line| line.contains("myself")).unwrap();
        own.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(cluster.masters().count(), 3);
    assert_eq!(slots_of_first(&cluster), "0-5460");
    cluster.reshard(10);
    assert_eq!(slots_of_first(&cluster), "10-5460");
    let dead = cluster.fail_over();
    assert_eq!(cluster.masters().count(), 3);
    cluster.nodes[dead].restart();
    eventually("the killed node returns as a replica", || {
        cluster.nodes[dead].info("role").as_deref() == Some("slave")
    });
}
