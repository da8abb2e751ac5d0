//! Descriptors of Envoy's rate limit service that are judged together: all are counted, or none.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::grpc::{Answer, DAY, Descriptor, Limit, ask, descriptor};
use crate::support::Gateway;

const OK: i32 = 1;
const OVER: i32 = 2;

/// A gateway that judges the domain `d` of this file by these words of `envoy`, beside those that
/// judge all descriptors together.
fn by_file(rules: &str, words: &str) -> (Gateway, SocketAddr, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = format!("domain: d\ndescriptors:\n{rules}");
    std::fs::write(directory.path().join("d.yaml"), file).expect("a file");
    let gateway = Gateway::start(&format!(
        "check: {{ grpc: {{ address: \"127.0.0.1:0\", envoy_config: {:?}, \
           envoy: {{ counting: together{words} }} }} }}\n",
        directory.path()
    ));
    let address = gateway.address();
    (gateway, address, directory)
}

/// A rule with a limit a day, and with further words.
fn rule(key: &str, requests: u32, words: &str) -> String {
    let rate = format!("rate_limit: {{ unit: day, requests_per_unit: {requests} }}");
    format!("  - {{ key: {key}, {rate}{words} }}\n")
}

/// A gateway with the policies `tokens` of 5 and `small` of 2 a day, and a domain `edge` of theirs.
/// `report` always counts on the counters of `tokens`.
fn by_policies() -> (Gateway, SocketAddr) {
    let key = "key: { \"header:x-tenant\": tenant }";
    let gateway = Gateway::start(&format!(
        "policies:\n  \
           tokens: {{ key: \"header:x-tenant\", limit: 5/day, algorithm: fixed_window }}\n  \
           small: {{ key: \"header:x-tenant\", limit: 2/day, algorithm: fixed_window }}\n\
         check:\n  grpc:\n    address: \"127.0.0.1:0\"\n    domains:\n      edge:\n        \
           - {{ match: [report, tenant], policy: tokens, {key}, count: always }}\n        \
           - {{ match: [ask, tenant], policy: tokens, {key} }}\n        \
           - {{ match: [small, tenant], policy: small, {key} }}\n"
    ));
    let address = gateway.address();
    (gateway, address)
}

/// So many hits of a tenant by a rule of [`by_policies`].
fn hits(rule: &str, tenant: &str, hits: u64) -> Descriptor {
    descriptor(&[(rule, ""), ("tenant", tenant)], Some(hits))
}

/// The code of each descriptor, and what remains after it.
fn told(answer: &Answer) -> Vec<(i32, u32)> {
    answer.statuses.iter().map(|it| (it.code, it.remaining)).collect()
}

/// The code of several requests with one hit for each of these keys, and what remains for the
/// first key after each request.
fn in_turn(address: SocketAddr, keys: &[&str], times: usize) -> Vec<(i32, u32)> {
    let hit = || {
        let hits = keys.iter().map(|key| descriptor(&[(key, "v")], None)).collect();
        let answer = ask(address, "d", hits);
        (answer.code, answer.statuses[0].remaining)
    };
    (0..times).map(|_| hit()).collect()
}

/// Regression: the charge of a rule in shadow mode was binding. Once it was over its limit, nothing
/// was counted any more, and each request passed.
#[test]
fn a_shadow_over_its_limit_does_not_stop_the_other_limits() {
    let rules = rule("user", 5, "") + &rule("path", 2, ", shadow_mode: true");
    let (_gateway, address, _directory) = by_file(&rules, "");
    let expected = [(OK, 4), (OK, 3), (OK, 2), (OK, 1), (OK, 0), (OVER, 0), (OVER, 0)];
    assert_eq!(in_turn(address, &["user", "path"], 7), expected);
}

/// Regression: the same happened to all limits of a service in shadow mode, which only counts.
#[test]
fn a_service_in_shadow_mode_counts_each_limit() {
    let rules = rule("user", 5, "") + &rule("path", 2, "");
    let (_gateway, address, _directory) = by_file(&rules, ", shadow: true");
    let expected = [(OK, 4), (OK, 3), (OK, 2), (OK, 1), (OK, 0), (OK, 0)];
    assert_eq!(in_turn(address, &["user", "path"], 6), expected);
}

/// Regression: a rule in quota mode that was over its limit stopped the others in quota mode, so
/// that they were never over theirs, and each request passed.
#[test]
fn limits_in_quota_mode_refuse_if_all_of_them_are_exceeded() {
    let quota = |key, requests| rule(key, requests, ", quota_mode: true");
    let rules = quota("small", 2) + &quota("large", 4) + &rule("user", 9, "");
    let (_gateway, address, _directory) = by_file(&rules, "");
    let codes = in_turn(address, &["large", "small"], 6);
    assert_eq!(codes, [(OK, 3), (OK, 2), (OK, 1), (OK, 0), (OVER, 0), (OVER, 0)]);
    // What they refuse is not counted under other limits.
    assert_eq!(in_turn(address, &["user", "large", "small"], 2), [(OVER, 9), (OVER, 9)]);
    assert_eq!(in_turn(address, &["user"], 1), [(OK, 8)]);
    // What another limit refuses is not counted under theirs.
    let rules = rule("user", 1, "") + &quota("share", 9);
    let (_gateway, address, _directory) = by_file(&rules, "");
    assert_eq!(in_turn(address, &["user", "share"], 3), [(OK, 0), (OVER, 0), (OVER, 0)]);
    assert_eq!(in_turn(address, &["share"], 1), [(OK, 7)]);
}

/// Regression: a limit of 0 has no counter. The request was over it, and the other descriptors
/// were counted all the same.
#[test]
fn a_limit_of_0_leaves_the_other_descriptors_uncounted() {
    let zero = |words: &str| rule("none", 0, words);
    let (_gateway, address, _directory) = by_file(&(rule("user", 5, "") + &zero("")), "");
    let codes = in_turn(address, &["user", "none"], 6).into_iter().map(|it| it.0);
    assert_eq!(codes.collect::<Vec<_>>(), [OVER; 6]);
    assert_eq!(in_turn(address, &["user"], 1), [(OK, 4)]);
    // A limit of 0 in shadow mode refuses nothing, so all are counted.
    let rules = rule("user", 5, "") + &zero(", shadow_mode: true");
    let (_gateway, address, _directory) = by_file(&rules, "");
    assert_eq!(in_turn(address, &["user", "none"], 2), [(OK, 4), (OK, 3)]);

    let (_gateway, address) = by_policies();
    let mut none = hits("small", "a", 1);
    none.limit = Some(Limit { requests: 0, unit: DAY });
    for _ in 0..6 {
        assert_eq!(ask(address, "edge", vec![hits("ask", "a", 1), none.clone()]).code, OVER);
    }
    assert_eq!(told(&ask(address, "edge", vec![hits("ask", "a", 1)])), [(OK, 4)]);
}

/// Regression: the rule without `count: always` joined the charge of the other one, and was counted
/// though the request was over a limit.
#[test]
fn a_refused_request_is_counted_only_where_it_must_be() {
    let (_gateway, address) = by_policies();
    let report = |tenant| hits("report", tenant, 1);
    let ask_one = |tenant| hits("ask", tenant, 1);
    let refused = |tenant| hits("small", tenant, 3);
    let left = |tenant| told(&ask(address, "edge", vec![hits("report", tenant, 0)]));
    for (tenant, descriptors) in [
        ("a", vec![report("a"), ask_one("a"), refused("a")]),
        ("b", vec![ask_one("b"), report("b"), refused("b")]),
    ] {
        assert_eq!(ask(address, "edge", descriptors).code, OVER);
        assert_eq!(left(tenant), [(OK, 4)], "the report alone counts");
    }
    for (tenant, descriptors) in
        [("c", vec![report("c"), ask_one("c")]), ("d", vec![ask_one("d"), report("d")])]
    {
        assert_eq!(ask(address, "edge", descriptors).code, OK);
        assert_eq!(left(tenant), [(OK, 3)]);
    }
}

/// Regression: a rule without `count: always` was within its limit for each question with 0 hits,
/// also where reports had counted more than the limit.
#[test]
fn a_question_of_0_hits_is_over_a_limit_that_is_exceeded() {
    let (_gateway, address) = by_policies();
    assert_eq!(ask(address, "edge", vec![hits("report", "a", 5)]).code, OK);
    assert_eq!(told(&ask(address, "edge", vec![hits("ask", "a", 0)])), [(OK, 0)]);
    assert_eq!(ask(address, "edge", vec![hits("report", "a", 2)]).code, OVER);
    assert_eq!(told(&ask(address, "edge", vec![hits("ask", "a", 0)])), [(OVER, 0)]);
    // The other descriptors of the request are not counted.
    let both = vec![hits("small", "a", 1), hits("ask", "a", 0)];
    assert_eq!(ask(address, "edge", both).code, OVER);
    assert_eq!(told(&ask(address, "edge", vec![hits("small", "a", 1)])), [(OK, 1)]);
}

/// Regression: `retry-after` named the end of the window, though waiting never helps.
#[test]
fn hits_that_never_fit_are_told_no_wait() {
    let rules = rule("user", 5, "") + &rule("none", 0, "");
    let (_gateway, address, _directory) = by_file(&rules, "");
    let one = |key, hits| ask(address, "d", vec![descriptor(&[(key, "v")], Some(hits))]);
    for answer in [one("user", 6), one("none", 1)] {
        assert_eq!((answer.code, answer.field("retry-after")), (OVER, None), "{answer:?}");
    }
    assert_eq!(one("user", 5).code, OK);
    assert!(one("user", 1).field("retry-after").is_some());
    let (_gateway, address) = by_policies();
    for rule in ["ask", "report"] {
        let answer = ask(address, "edge", vec![hits(rule, "a", 6)]);
        assert_eq!((answer.code, answer.field("retry-after")), (OVER, None), "{answer:?}");
    }
}
