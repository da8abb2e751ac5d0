//! Limits of single keys without Redis: in a file that the command line writes
//! while gateways read it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::{Client, Gateway, Origin, Program, admin_text, eventually};
use crate::traffic::{TOKEN, metric};

/// A gateway whose overrides are in this file. `each` counts by `X-Client`.
fn gateway(file: &Path) -> Gateway {
    gateway_counting(file, "sliding_window")
}

/// The same with this algorithm for `each`.
fn gateway_counting(file: &Path, algorithm: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], \
                   tokens: [{{ name: m, role: read, token: {TOKEN} }}] }}\n\
         store: {{ overrides: {{ path: {file:?} }} }}\n\
         policies:\n  \
           each: {{ key: \"header:x-client\", limit: 3/day, algorithm: {algorithm}, overrides: true }}\n  \
           both: {{ key: {{ all: [ip, path] }}, limit: 1M/day, overrides: true }}\n  \
           plain: {{ key: ip, limit: 1M/day }}\n\
         routes: [{{ path: \"/*\", policies: [each, both, plain], respond: {{ body: ok }} }}]\n"
    ))
}

fn limits(clients: &mut [Client], field: &str) -> Vec<u64> {
    let limit = |client: &mut Client| client.get("/", &[field]).number("X-Ratelimit-Limit");
    clients.iter_mut().map(limit).collect()
}

#[test]
fn an_override_applies_to_all_running_gateways_until_it_is_unset() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overrides.redb");
    let gateways = [(); 2].map(|()| gateway(&file));
    let mut clients = gateways.each_ref().map(Gateway::client);
    let field = "X-Client: ann";
    let statuses = [(); 4].map(|()| clients[0].get("/", &[field]).status);
    assert_eq!(statuses, [200, 200, 200, 429]);
    for (limit, told) in [("500", [500, 500]), ("2", [2, 2]), ("9/hour", [9, 9])] {
        let output = gateways[0].overrides(&["set", "each", "ann", limit]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        eventually("both go by it", || limits(&mut clients, field) == told);
        assert_eq!(limits(&mut clients, "X-Client: bob"), [3, 3]);
    }
    gateways[1].overrides(&["set", "each", "ann", "unlimited"]);
    eventually("both go by it", || limits(&mut clients, field) == [1_000_000, 1_000_000]);
    gateways[1].overrides(&["set", "both", "ip=127.0.0.1&path=/", "7"]);
    eventually("both go by it", || limits(&mut clients, field) == [7, 7]);
    let response = clients[0].get("/", &[field]);
    let policies = response.field("RateLimit-Policy").expect("it is there");
    assert!(policies.contains("\"both\";q=7;w=86400"), "{policies}");
    gateways[0].overrides(&["unset", "both", "ip=127.0.0.1&path=/"]);
    gateways[0].overrides(&["unset", "each", "ann"]);
    eventually("both go by it", || limits(&mut clients, field) == [3, 3]);
}

#[test]
fn a_restarted_gateway_applies_existing_overrides() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overrides.redb");
    let first = gateway(&file);
    first.overrides(&["set", "each", "ann", "50"]);
    drop(first);
    let again = gateway(&file);
    let mut clients = [again.client()];
    eventually("it goes by it", || limits(&mut clients, "X-Client: ann") == [50]);
    let output = again.overrides(&["get", "each", "ann"]);
    assert_eq!(output.stdout, "each ann: 50/1d (the policy's own limit: 3/1d)\n");
}

#[test]
fn an_override_that_does_not_fit_a_changed_policy_is_ignored_and_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overrides.redb");
    let first = gateway(&file);
    for (name, limit) in [("ann", "1M"), ("bob", "2M"), ("eve", "50")] {
        assert_eq!(first.overrides(&["set", "each", name, limit]).code, Some(0));
    }
    drop(first);
    // The algorithm stores the time of each request, and refuses so large a limit.
    let again = gateway_counting(&file, "sliding_log");
    let mut clients = [again.client()];
    eventually("it goes by what fits", || limits(&mut clients, "X-Client: eve") == [50]);
    for field in ["X-Client: ann", "X-Client: bob", "X-Client: ann"] {
        assert_eq!(limits(&mut clients, field), [3]);
    }
    eventually("the log says so", || {
        assert_eq!(limits(&mut clients, "X-Client: bob"), [3]);
        again.log().contains("does not fit")
    });
    let log = again.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("does not fit")).collect();
    assert!(
        matches!(&lines[..], [line] if line.contains("each") && !line.contains("ann")),
        "{log}"
    );
    eventually("the metric counts them", || {
        metric(&again, "tollgate_ignored_limits_total", &["policy=\"each\""]) >= 4.0
    });
    let credential = format!("Authorization: Bearer {TOKEN}");
    let status = || admin_text(again.addresses()[1], "/v1/status", &credential);
    eventually("the status has it", || status().contains("limits_ignored"));
}

#[test]
fn overrides_stay_in_effect_when_their_file_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overrides.redb");
    let gateway = gateway(&file);
    let mut clients = [gateway.client()];
    gateway.overrides(&["set", "each", "ann", "50"]);
    eventually("it goes by it", || limits(&mut clients, "X-Client: ann") == [50]);
    std::fs::remove_file(&file).expect("it is there");
    eventually("the log says so", || gateway.log().contains("the overrides cannot be read"));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(limits(&mut clients, "X-Client: ann"), [50]);
    assert_eq!(limits(&mut clients, "X-Client: bob"), [3]);
}

#[test]
fn invalid_overrides_are_refused_with_advice() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory.path().join("overrides.redb"));
    let cases: [(&[&str], &str); 7] = [
        (
            &["set", "echo", "ann", "5"],
            "there is no policy \"echo\"; policies with overrides: each",
        ),
        (&["set", "plain", "10.0.0.1", "5"], "write overrides: true under it"),
        (&["set", "each", "", "5"], "no request has such a key"),
        (&["get", "both", "10.0.0.1"], "write it as ip=...&path=..."),
        (&["set", "each", "ann", "lots"], "write a count per time"),
        (&["set", "each", "ann", "0"], "a limit of 0 would let nothing pass"),
        (&["set", "each", "ann", "5/fortnight"], "is not a unit of time"),
    ];
    for (arguments, said) in cases {
        let output = gateway.overrides(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(said), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn help_has_an_example() {
    let output = Program::run(&["override", "--help"]);
    assert!(output.stdout.contains("tollgate override set per-client 192.0.2.7 500/minute"));
}

/// The operator has set the limit of this key. What the policy admits beyond its own limit is not added.
#[test]
fn an_elastic_policy_does_not_raise_an_override() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("overrides.redb");
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ overrides: {{ path: {file:?} }} }}\n\
         policies:\n  \
           each: {{ key: \"header:x-client\", limit: 3/day, overrides: true, \
           elastic: {{ limit: 6/day, when: {{ upstream_in_flight_below: 50% }} }} }}\n\
         routes: [{{ path: \"/*\", policies: [each], upstream: app }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"], max_in_flight: 100 }} }}\n",
        origin.address()
    ));
    for (name, limit) in [("slow", "1"), ("fast", "8"), ("probe", "50")] {
        assert_eq!(gateway.overrides(&["set", "each", name, limit]).code, Some(0));
    }
    let mut probes = [gateway.client()];
    eventually("it goes by them", || limits(&mut probes, "X-Client: probe") == [50]);
    let mut client = gateway.client();
    let admitted = |name: &str| {
        let field = format!("X-Client: {name}");
        (0..12).filter(|_| client.get("/", &[&field]).status == 200).count()
    };
    assert_eq!(["slow", "fast", "other"].map(admitted), [1, 8, 6]);
}
