//! Invented keys: an address learns of few of them that they are wrong, and a text with a wrong
//! checksum causes no call.

use std::collections::BTreeMap;

use tollgate_core::api_keys::{KeyForm, NewKey};

use super::stored::{create, in_redis, status};
use super::{field, id};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, eventually};

const INVENTED: usize = 300;

/// A server that keeps its commands, a gateway, and a key that it knows.
fn start() -> (Redis, Gateway, String) {
    let redis = Redis::start(Options::default());
    let gateway = gateway(&redis);
    let known = create(&gateway, &["--first"]);
    eventually("the key holds", || status(&gateway, &known) == 200);
    redis.cli(&["CONFIG", "SET", "slowlog-max-len", "100000", "slowlog-log-slower-than", "0"]);
    (redis, gateway, known)
}

fn gateway(redis: &Redis) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ failures: 30/hour, keys: {{ prefix: acme }} }}\n\
         store: {{ {} }}\n\
         routes: [{{ path: /*, auth: [api_key], respond: {{ body: ok }} }}]\n",
        in_redis(redis)
    ))
}

/// How often each status is the answer to a request with one of these keys.
fn statuses(gateway: &Gateway, keys: &[String]) -> BTreeMap<u16, usize> {
    let mut client = gateway.client();
    let mut statuses = BTreeMap::new();
    for key in keys {
        *statuses.entry(client.get("/v1/x", &[&field(key)]).status).or_default() += 1;
    }
    statuses
}

/// All commands of the server since it was told to keep them.
fn commands(redis: &Redis) -> String {
    redis.cli(&["SLOWLOG", "GET", "100000"])
}

#[test]
fn of_300_invented_keys_30_get_401_and_the_rest_429() {
    let (redis, gateway, known) = start();
    let form = KeyForm::new("acme").expect("a prefix");
    let invented: Vec<String> =
        (0..INVENTED).map(|_| NewKey::generate(&form).text.as_str().to_owned()).collect();
    assert_eq!(statuses(&gateway, &invented), BTreeMap::from([(401, 30), (429, 270)]));
    let commands = commands(&redis);
    let asked = invented.iter().filter(|key| commands.contains(id(key))).count();
    assert_eq!(asked, 30, "no lookup beyond the limit");
    assert_eq!(status(&gateway, &known), 200, "a known client behind the address goes on");
}

#[test]
fn keys_with_a_wrong_checksum_cause_no_call() {
    let (redis, gateway, _) = start();
    // The checksum is that of another secret.
    let form = KeyForm::new("acme").expect("a prefix");
    let mistyped = |text: &str| {
        let other = if text.ends_with('0') { '1' } else { '0' };
        format!("{}{other}", &text[..text.len() - 1])
    };
    let invented: Vec<String> =
        (0..INVENTED).map(|_| mistyped(&NewKey::generate(&form).text)).collect();
    assert_eq!(statuses(&gateway, &invented), BTreeMap::from([(401, 30), (429, 270)]));
    // What the node reads each second shows that the server keeps its commands.
    eventually("the marks are read", || commands(&redis).contains("HGETALL"));
    let commands = commands(&redis);
    let asked = invented.iter().filter(|key| commands.contains(id(key))).count();
    assert_eq!(asked, 0);
}
