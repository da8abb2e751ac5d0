//! One server of the store: whether it can be reached and used, and what it tells.

use std::sync::Arc;
use std::time::Duration;

use super::{bad, check_store, good};
use crate::support::redis::{Fault, LOOPBACK, Options, Redis, ScriptsWithoutTime, Wire};
use crate::support::{Certificates, Reserved};

fn lines(lines: &[&str]) -> Redis {
    let lines = lines.iter().map(ToString::to_string).collect();
    Redis::start(Options { lines, ..Options::default() })
}

fn url(redis: &Redis) -> String {
    format!("url: \"{}\"", redis.url())
}

#[test]
fn a_good_server_is_described_on_one_line() {
    let redis = lines(&[]);
    let found = good(check_store(&url(&redis)));
    let line = found.lines().nth(1).expect("a line for the server");
    let begin = format!("store.redis.url: {LOOPBACK}:{}: good (", redis.port());
    assert!(line.starts_with(&begin), "{found}");
    for fact in [
        ", master, maxmemory-policy noeviction, clock ",
        " ms ± ",
        " ms, PING ",
        " ms, script ",
        " ms, timeout 3000 ms)",
    ] {
        assert!(line.contains(fact), "{fact:?}: {found}");
    }
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
}

#[test]
fn a_server_that_evicts_is_a_warning_with_its_consequence() {
    let output = check_store(&url(&lines(&["maxmemory-policy allkeys-lru"])));
    assert_eq!(output.code, Some(0));
    assert!(
        output.stderr.contains(
            ": maxmemory-policy is allkeys-lru: when its memory is full, Redis forgets clients, \
             and their limits begin anew\n      | set maxmemory-policy noeviction\n"
        ),
        "{}",
        output.stderr
    );
}

#[test]
fn slots_behind_one_address_and_scripts_without_time_are_told() {
    let redis = Redis::start_with_slots(Options::default());
    let found = good(check_store(&url(&redis)));
    assert!(found.contains(", all slots of a cluster behind one address, "), "{found}");
    let service = ScriptsWithoutTime::start(Options::default());
    let found = good(check_store(&format!("url: \"{}\"", service.url())));
    assert!(found.contains(", scripts are given the time, "), "{found}");
}

/// Each has a cause of its own, and a remedy.
#[test]
fn a_server_that_cannot_be_used_is_reported_with_its_cause() {
    let guarded = Redis::start(Options { password: Some("right"), ..Options::default() });
    let open = lines(&[]);
    let replica = lines(&[&format!("replicaof {LOOPBACK} {}", open.port())]);
    let node = lines(&["cluster-enabled yes"]);
    let sentinel = Redis::start(Options { is_sentinel: true, ..Options::default() });
    let nothing = Reserved::new();
    let full = lines(&["maxmemory 1mb", "maxmemory-policy noeviction"]);
    for (fields, error, remedy) in [
        (url(&guarded), "the server requires a password: NOAUTH", "store.redis.password"),
        (
            format!("{}, password: wrong-one", url(&guarded)),
            "does not accept the user or the password: WRONGPASS",
            "compare the password with that of the user default",
        ),
        (format!("{}, password: wrong-one", url(&open)), "has no password", "leave out"),
        (format!("url: \"{}/99\"", open.url()), "not have the database", "another database"),
        (url(&replica), "the server is a replica: ROLE is slave", "name the master"),
        (url(&node), "the cluster does not serve all of its slots", "see CLUSTER INFO"),
        (url(&sentinel), "the server is a Sentinel", "write redis+sentinel://"),
        (
            format!("url: \"redis+sentinel://127.0.0.1:{}/main\"", open.port()),
            "the server is not a Sentinel",
            "write redis:// for a server",
        ),
        (
            format!("url: \"redis+cluster://127.0.0.1:{}\"", open.port()),
            "the server is not part of a cluster",
            "write redis:// instead of redis+cluster://",
        ),
        (
            format!("url: \"redis://{}\"", nothing.address()),
            "the server cannot be reached: Connection refused",
            "see whether Redis runs",
        ),
        (url(&full), "the memory of the server is full", "raise maxmemory"),
    ] {
        let output = check_store(&fields);
        assert!(!output.stdout.contains("wrong-one"), "{}", output.stdout);
        let report = bad(output);
        assert!(report.contains(error) && report.contains(remedy), "{fields}: {report}");
        assert!(!report.contains("wrong-one"), "{report}");
        assert!(report.ends_with("error: 1 of 1 servers and files cannot be used as they are\n"));
    }
}

#[test]
fn a_server_that_is_too_slow_or_silent_or_speaks_another_protocol_is_no_store() {
    let redis = lines(&[]);
    let wire = Wire::to(redis.port());
    let store = format!("url: \"{}\"", wire.url());
    let slow = Fault::Delay(Duration::from_millis(60));
    for (fault, expected) in [
        (
            Fault::Delay(Duration::from_millis(60)),
            " ms from a command to its reply, and the timeout",
        ),
        (Fault::Swallow, "the server does not answer in time\n"),
        (Fault::Cut, "the server closes the connection"),
        (Fault::Garbage, "does not speak the protocol of Redis"),
    ] {
        wire.set(fault);
        let report = bad(check_store(&format!("{store}, timeout: 20ms")));
        assert!(report.contains(expected), "{fault:?}: {report}");
    }
    wire.set(slow);
    good(check_store(&store));
}

#[test]
fn a_certificate_that_is_not_trusted_is_reported() {
    let made = |name| Arc::new(Certificates::temporary(name));
    let tls = |tls: &Arc<Certificates>| {
        Redis::start(Options { tls: Some(Arc::clone(tls)), ..Options::default() })
    };
    let own = made(LOOPBACK);
    let other = made("elsewhere.test");
    let stranger = made(LOOPBACK);
    let store = |redis: &Redis, ca: &Certificates, own: &Certificates| {
        let ca = ca.ca();
        let cert = own.client();
        let key = own.client_key();
        format!("url: \"{}\", tls: {{ ca: {ca:?}, cert: {cert:?}, key: {key:?} }}", redis.url())
    };
    let good_one = tls(&own);
    let misnamed = tls(&other);
    good(check_store(&store(&good_one, &own, &own)));
    for (fields, expected) in [
        (store(&good_one, &stranger, &own), "invalid peer certificate"),
        (store(&misnamed, &other, &other), "certificate not valid for name \"127.0.0.1\""),
    ] {
        let report = bad(check_store(&fields));
        assert!(report.contains(expected), "{report}");
    }
    // The alert of the server and the end of the connection come at once.
    let report = bad(check_store(&store(&good_one, &own, &stranger)));
    let causes = ["the TLS handshake with the server fails", "the server closes the connection"];
    assert!(causes.iter().any(|cause| report.contains(cause)), "{report}");
}
