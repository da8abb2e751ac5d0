//! The shapes of limits that Envoy Gateway and Envoy AI Gateway make of their policies, as messages
//! and as files: both give the same verdicts, which are those of envoyproxy/ratelimit.
//!
//! The order of the steps is theirs: the route or the shared policy, then headers, the method, the
//! path, query parameters and addresses of a rule. A step without a value takes each value, and
//! counts it alone.

use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::super::grpc::{ask, descriptor};
use super::Node;
use super::server::{Limit, Limited, Server, domain};
use crate::support::{Gateway, eventually};

/// How often each descriptor is asked.
const TIMES: usize = 4;
const UNITS: [&str; 8] = ["UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];

/// One configuration.
struct Shape {
    name: &'static str,
    /// Limits as `DOMAIN: STEP > STEP N/UNIT WORDS`. A step `name` has the name as its key and as
    /// its value, and `name=` has only the key.
    rules: &'static [&'static str],
    /// Descriptors as `DOMAIN: STEP > STEP`, and how many of four are within the limit.
    asks: &'static [(&'static str, usize)],
}

const fn shape(
    name: &'static str,
    rules: &'static [&'static str],
    asks: &'static [(&'static str, usize)],
) -> Shape {
    Shape { name, rules, asks }
}

const SHAPES: [Shape; 34] = [
    shape(
        "a header with one value",
        &["l: r1 > rule-0-match-0 3/DAY"],
        &[("l: r1 > rule-0-match-0", 3), ("l: r1 > other", 4), ("l: r2 > rule-0-match-0", 4)],
    ),
    shape(
        "each value of a header",
        &["l: r1 > rule-0-match-0= 3/DAY"],
        &[("l: r1 > rule-0-match-0=ann", 3), ("l: r1 > rule-0-match-0=bob", 3)],
    ),
    shape(
        "each value of a header, with limits of their own",
        &[
            "l: r1 > rule-0-match-0= 1/DAY",
            "l: r1 > rule-0-match-0=client-a 2/DAY",
            "l: r1 > rule-0-match-0=client-b 3/DAY",
        ],
        &[
            ("l: r1 > rule-0-match-0=client-a", 2),
            ("l: r1 > rule-0-match-0=client-b", 3),
            ("l: r1 > rule-0-match-0=client-c", 1),
        ],
    ),
    shape(
        "the same, with a method",
        &[
            "l: r1 > rule-0-match-0= > rule-0-method 1/DAY",
            "l: r1 > rule-0-match-0=client-a > rule-0-method 2/DAY",
        ],
        &[
            ("l: r1 > rule-0-match-0=client-a > rule-0-method", 2),
            ("l: r1 > rule-0-match-0=x > rule-0-method", 1),
            ("l: r1 > rule-0-match-0=client-a", 4),
        ],
    ),
    shape(
        "the same, with a path",
        &[
            "l: r1 > rule-0-match-0= > rule-0-path 1/DAY",
            "l: r1 > rule-0-match-0=client-a > rule-0-path 2/DAY",
        ],
        &[
            ("l: r1 > rule-0-match-0=client-a > rule-0-path", 2),
            ("l: r1 > rule-0-match-0=y > rule-0-path", 1),
        ],
    ),
    shape(
        "the same, with a method and a path",
        &[
            "l: r1 > rule-0-match-0= > rule-0-method > rule-0-path 1/DAY",
            "l: r1 > rule-0-match-0=client-a > rule-0-method > rule-0-path 2/DAY",
            "l: r1 > rule-0-match-0=client-b > rule-0-method > rule-0-path 3/DAY",
        ],
        &[
            ("l: r1 > rule-0-match-0=client-b > rule-0-method > rule-0-path", 3),
            ("l: r1 > rule-0-match-0=client-a > rule-0-method > rule-0-path", 2),
            ("l: r1 > rule-0-match-0=z > rule-0-method > rule-0-path", 1),
        ],
    ),
    shape(
        "each value of a query parameter, with a limit of its own",
        &["l: r1 > rule-0-match-0= 1/DAY", "l: r1 > rule-0-match-0=alice 3/DAY"],
        &[("l: r1 > rule-0-match-0=alice", 3), ("l: r1 > rule-0-match-0=eve", 1)],
    ),
    shape(
        "each address of a network",
        &["l: r1 > masked_remote_address=192.168.0.0/16 > remote_address= 2/DAY"],
        &[
            ("l: r1 > masked_remote_address=192.168.0.0/16 > remote_address=192.168.0.9", 2),
            ("l: r1 > masked_remote_address=192.168.0.0/16 > remote_address=192.168.0.8", 2),
            ("l: r1 > masked_remote_address=10.0.0.0/16 > remote_address=10.0.0.8", 4),
        ],
    ),
    shape(
        "each address of a network, with limits of their own",
        &[
            "l: r1 > masked_remote_address=192.168.0.0/16 > remote_address= 1/DAY",
            "l: r1 > masked_remote_address=192.168.0.0/16 > remote_address=192.168.0.10 3/DAY",
        ],
        &[
            ("l: r1 > masked_remote_address=192.168.0.0/16 > remote_address=192.168.0.10", 3),
            ("l: r1 > masked_remote_address=192.168.0.0/16 > remote_address=192.168.0.11", 1),
        ],
    ),
    shape(
        "all addresses of a network together",
        &["l: r1 > masked_remote_address=192.168.0.0/16 3/DAY"],
        &[("l: r1 > masked_remote_address=192.168.0.0/16", 3)],
    ),
    shape(
        "a network that is excluded",
        &["l: r1 > masked_remote_address=192.168.0.0/24 2/DAY"],
        &[("l: r1 > masked_remote_address=192.168.0.0/24", 2), ("l: r1", 4)],
    ),
    shape(
        "one network in two routes",
        &[
            "l: r1 > rule-0-match--1 > masked_remote_address=192.168.0.10/32 1/HOUR",
            "l: r2 > rule-0-match--1 > masked_remote_address=192.168.0.10/32 3/HOUR",
        ],
        &[
            ("l: r1 > rule-0-match--1 > masked_remote_address=192.168.0.10/32", 1),
            ("l: r2 > rule-0-match--1 > masked_remote_address=192.168.0.10/32", 3),
        ],
    ),
    shape(
        "an IPv6 network",
        &["l: r1 > masked_remote_address=2001:db8::/32 > remote_address= 2/DAY"],
        &[("l: r1 > masked_remote_address=2001:db8::/32 > remote_address=2001:db8::1", 2)],
    ),
    shape(
        "all requests of a route",
        &["l: r1 > rule-0-match--1 3/DAY"],
        &[("l: r1 > rule-0-match--1", 3), ("l: r1", 4)],
    ),
    shape(
        "all requests of a route, in a policy",
        &["l: r1 > ns/p1/rule/0 > rule-0-match--1 2/DAY"],
        &[("l: r1 > ns/p1/rule/0 > rule-0-match--1", 2)],
    ),
    shape(
        "headers and a network",
        &["l: r1 > rule-0-match-0 > rule-0-match-1 > masked_remote_address=0.0.0.0/0 3/DAY"],
        &[
            ("l: r1 > rule-0-match-0 > rule-0-match-1 > masked_remote_address=0.0.0.0/0", 3),
            ("l: r1 > rule-0-match-0 > masked_remote_address=0.0.0.0/0", 4),
        ],
    ),
    shape(
        "all kinds of matches",
        &[
            "l: r1 > rule-0-match-0 > rule-0-match-1 > rule-0-match-2 > rule-0-method > rule-0-path \
             > masked_remote_address=0.0.0.0/0 2/DAY",
        ],
        &[(
            "l: r1 > rule-0-match-0 > rule-0-match-1 > rule-0-match-2 > rule-0-method > rule-0-path \
             > masked_remote_address=0.0.0.0/0",
            2,
        )],
    ),
    shape(
        "two headers",
        &["l: r1-key-rule-0-match-0=v > r1-key-rule-0-match-1=w 3/DAY"],
        &[("l: r1-key-rule-0-match-0=v > r1-key-rule-0-match-1=w", 3)],
    ),
    shape(
        "methods",
        &["l: r1 > rule-0-method 1/DAY", "l: r1 > rule-1-method 3/DAY"],
        &[("l: r1 > rule-0-method", 1), ("l: r1 > rule-1-method", 3)],
    ),
    shape("a path", &["l: r1 > rule-0-path 2/DAY"], &[("l: r1 > rule-0-path", 2)]),
    shape(
        "query parameters",
        &["l: r1 > ns/p1/rule/0 > rule-0-match-0 > rule-0-match-1 2/DAY"],
        &[("l: r1 > ns/p1/rule/0 > rule-0-match-0 > rule-0-match-1", 2)],
    ),
    shape(
        "long units",
        &[
            "l: r1 > rule-0-match-0 1/MONTH",
            "l: r1 > rule-1-match-0 2/YEAR",
            "l: r1 > rule-2-match-0 3/WEEK",
        ],
        &[
            ("l: r1 > rule-0-match-0", 1),
            ("l: r1 > rule-1-match-0", 2),
            ("l: r1 > rule-2-match-0", 3),
        ],
    ),
    shape(
        "several rules, one of them without a limit in fact",
        &[
            "l: r1 > ns/p1/rule/0 > rule-0-match-0 2/DAY",
            "l: r1 > ns/p1/rule/1 > rule-1-match-0 4294967295/SECOND",
        ],
        &[
            ("l: r1 > ns/p1/rule/0 > rule-0-match-0", 2),
            ("l: r1 > ns/p1/rule/1 > rule-1-match-0", 4),
        ],
    ),
    shape(
        "several routes",
        &["l: r1 > rule-0-match-0= 1/DAY", "l: r2 > rule-0-match-0= 2/DAY"],
        &[("l: r1 > rule-0-match-0=ann", 1), ("l: r2 > rule-0-match-0=ann", 2)],
    ),
    shape(
        "several listeners",
        &["l: r1 > rule-0-match-0= 1/DAY", "m: r1 > rule-0-match-0= 3/DAY"],
        &[("l: r1 > rule-0-match-0=ann", 1), ("m: r1 > rule-0-match-0=ann", 3)],
    ),
    shape(
        "a shared policy",
        &["ns/p1: ns/p1/rule/0 > rule-0-match-0= 2/DAY"],
        &[("ns/p1: ns/p1/rule/0 > rule-0-match-0=ann", 2)],
    ),
    shape(
        "a shared policy with limits of their own",
        &[
            "ns/p1: ns/p1/rule/0 > rule-0-match-0= 1/DAY",
            "ns/p1: ns/p1/rule/0 > rule-0-match-0=client-a 2/DAY",
            "ns/p1: ns/p1/rule/0 > rule-0-match-0=client-b 3/DAY",
        ],
        &[
            ("ns/p1: ns/p1/rule/0 > rule-0-match-0=client-b", 3),
            ("ns/p1: ns/p1/rule/0 > rule-0-match-0=x", 1),
        ],
    ),
    shape(
        "several shared policies, and a route of its own",
        &[
            "l: r4 > rule-0-match-0 3/DAY",
            "ns/p1: ns/p1/rule/0 > rule-0-match-0 1/DAY",
            "ns/p2: ns/p2/rule/0 > rule-0-match-0 2/DAY",
        ],
        &[
            ("l: r4 > rule-0-match-0", 3),
            ("ns/p1: ns/p1/rule/0 > rule-0-match-0", 1),
            ("ns/p2: ns/p2/rule/0 > rule-0-match-0", 2),
        ],
    ),
    shape(
        "shared rules, and rules of one route, in one policy",
        &[
            "l: r1 > ns/p1/rule/2 > rule-0-match-0 3/DAY",
            "ns/p1: ns/p1/rule/0 > rule-0-match-0 1/DAY",
            "ns/p1: ns/p1/rule/1 > rule-1-match-0 2/DAY",
        ],
        &[
            ("l: r1 > ns/p1/rule/2 > rule-0-match-0", 3),
            ("ns/p1: ns/p1/rule/0 > rule-0-match-0", 1),
            ("ns/p1: ns/p1/rule/1 > rule-1-match-0", 2),
        ],
    ),
    shape(
        "a shared rule with a name",
        &["ns/p1: ns/p1/rule/by-user > rule-match-0= 2/DAY"],
        &[("ns/p1: ns/p1/rule/by-user > rule-match-0=ann", 2)],
    ),
    shape(
        "shadow mode below the route",
        &["l: r1 > rule-0-match-0 > rule-0-match-1 > masked_remote_address=0.0.0.0/0 1/DAY shadow"],
        &[("l: r1 > rule-0-match-0 > rule-0-match-1 > masked_remote_address=0.0.0.0/0", 4)],
    ),
    shape(
        "metrics with values",
        &["l: r1 > rule-0-match-0= 2/DAY detailed"],
        &[("l: r1 > rule-0-match-0=ann", 2)],
    ),
    shape(
        "a rule that blocks",
        &["l: r1 > rule-0-match-0 0/HOUR"],
        &[("l: r1 > rule-0-match-0", 0)],
    ),
    shape(
        "quotas of models",
        &[
            "ai-gateway-quota: backend_name=ns/b > model_name_override=m 2/DAY quota",
            "ai-gateway-quota: backend_name=ns/b > model_name_override=m > \
             rule-0-x-tenant|a-match-0 1/HOUR quota",
        ],
        &[
            ("ai-gateway-quota: backend_name=ns/b > model_name_override=m", 2),
            (
                "ai-gateway-quota: backend_name=ns/b > model_name_override=m > \
                 rule-0-x-tenant|a-match-0",
                1,
            ),
        ],
    ),
];

/// The domain and the entries of a line. Names of domains differ between shapes.
fn parts(index: usize, line: &str) -> (String, Vec<(String, String)>) {
    let (domain, path) = line.split_once(": ").expect("a domain");
    let entry = |step: &str| {
        let (key, value) = step.trim().split_once('=').unwrap_or((step.trim(), step.trim()));
        (key.to_owned(), value.to_owned())
    };
    (format!("{index}/{domain}"), path.split('>').map(entry).collect())
}

/// Adds a limit to the descriptors of a domain.
fn add(descriptors: &mut Vec<Limited>, path: &[(String, String)], limit: Limit, words: &[&str]) {
    let Some(((key, value), below)) = path.split_first() else { return };
    let at = descriptors.iter().position(|it| (&it.key, &it.value) == (key, value));
    let at = at.unwrap_or_else(|| {
        descriptors.push(Limited { key: key.clone(), value: value.clone(), ..Limited::default() });
        descriptors.len() - 1
    });
    let it = &mut descriptors[at];
    // Envoy Gateway sets it on each level below the route.
    it.shadow |= words.contains(&"shadow") && key != "r1";
    if below.is_empty() {
        it.limit = Some(limit);
        it.quota = words.contains(&"quota");
        it.detailed = words.contains(&"detailed");
    }
    add(&mut it.below, below, limit, words);
}

/// The domains of all shapes, in their order.
fn all_domains() -> Vec<(String, Vec<Limited>)> {
    let mut domains: Vec<(String, Vec<Limited>)> = Vec::new();
    for (index, shape) in SHAPES.iter().enumerate() {
        for rule in shape.rules {
            let (path, words) = rule.rsplit_once('/').expect("a unit");
            let (path, requests) = path.rsplit_once(' ').expect("a limit");
            let words: Vec<&str> = words.split(' ').collect();
            let unit = UNITS.iter().position(|it| *it == words[0]).expect("a unit");
            let limit = Limit {
                unit: i32::try_from(unit).expect("it is small"),
                requests: requests.parse().expect("a number"),
            };
            let (name, path) = parts(index, path);
            if domains.last().is_none_or(|(last, _)| *last != name) {
                domains.push((name, Vec::new()));
            }
            let (_, descriptors) = domains.last_mut().expect("it was added");
            add(descriptors, &path, limit, &words);
        }
    }
    domains
}

/// The descriptors in the words of files, with all fields that Envoy Gateway writes.
fn in_words(descriptors: &[Limited]) -> Value {
    let limit = |it: &Limit| {
        let unit = UNITS[usize::try_from(it.unit).expect("a unit")];
        json!({ "requests_per_unit": it.requests, "unit": unit, "unlimited": false, "name": "", "replaces": [] })
    };
    let words = |it: &Limited| {
        json!({
            "key": it.key, "value": it.value, "rate_limit": it.limit.as_ref().map(limit),
            "descriptors": in_words(&it.below), "shadow_mode": it.shadow, "quota_mode": it.quota,
            "detailed_metric": it.detailed, "value_to_metric": false, "share_threshold": false,
        })
    };
    descriptors.iter().map(words).collect()
}

#[test]
fn messages_and_files_give_the_same_verdicts() {
    let domains = all_domains();
    let directory = tempfile::tempdir().expect("a directory");
    for (index, (name, descriptors)) in domains.iter().enumerate() {
        let file = json!({ "name": name, "domain": name, "descriptors": in_words(descriptors) });
        let path = directory.path().join(format!("{index}.yaml"));
        fs::write(path, file.to_string()).expect("a file");
    }
    let files = Gateway::start(&format!(
        "check: {{ grpc: {{ address: \"127.0.0.1:0\", envoy_config: {:?} }} }}\n",
        directory.path()
    ));
    let server = Server::new();
    let node = Node::new(server.address(), "");
    server.nth(0);
    let last = domains.last().expect("there are shapes").0.clone();
    let resources: Vec<_> = domains.into_iter().map(|(name, it)| domain(&name, it)).collect();
    server.say("1", "a", &resources);
    eventually("the limits hold", || node.remaining(&last, "k").is_some());
    let answer = server.nth(1);
    assert_eq!((&*answer.version, answer.error), ("1", None));
    for (index, shape) in SHAPES.iter().enumerate() {
        for (line, within) in shape.asks {
            let (name, entries) = parts(index, line);
            let entries: Vec<_> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
            let told = |address: SocketAddr| -> Vec<_> {
                let ask = |_| ask(address, &name, vec![descriptor(&entries, None)]);
                let told = (0..TIMES).map(ask);
                // A rule without a limit in fact has windows of a second, which can end meanwhile.
                let shown = |remaining: u32| remaining.min(u32::MAX / 2);
                told.map(|it| (it.code, it.statuses[0].code, shown(it.statuses[0].remaining)))
                    .collect()
            };
            let by_messages = told(node.grpc);
            assert_eq!(by_messages, told(files.address()), "{}: {line}", shape.name);
            let admitted = by_messages.iter().filter(|it| it.0 == 1).count();
            assert_eq!(admitted, *within, "{}: {line}: {by_messages:?}", shape.name);
        }
    }
}
