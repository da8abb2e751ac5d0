//! A page of a list costs its page, however many keys the store has.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tollgate_core::api_keys::{KeyForm, NewKey};

use super::stored::{in_redis, key};
use crate::support::redis::{Options, Redis};
use crate::support::{Client, Gateway, Program};

const KEYS: usize = 20_000;
const PAGE: usize = 100;
/// A record of these keys has about 150 bytes.
const MAX_BYTES: u64 = 60_000;
/// The sign and the ids of at most two parts, the records and their last uses, and what the node
/// reads each second.
const MAX_COMMANDS: u64 = 500;

/// What the server has sent, and how many commands it has processed.
fn work(redis: &Redis) -> [u64; 2] {
    ["total_net_output_bytes", "total_commands_processed"]
        .map(|name| redis.info(name).and_then(|it| it.parse().ok()).expect("a number"))
}

#[test]
fn a_page_of_20_000_keys_costs_its_page() {
    let redis = Redis::start(Options::default());
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ keys: {{ prefix: acme }} }}\n\
         store: {{ {} }}\n\
         routes: [{{ path: /*, auth: [api_key], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
         {{ name: a, role: read, token: read-0123456789abcdef }}] }}\n",
        in_redis(&redis)
    ));
    let form = KeyForm::new("acme").expect("a prefix");
    let mut csv = "key,team\n".to_owned();
    for number in 0..KEYS {
        let team = if number % 1000 == 0 { "rare" } else { "usual" };
        writeln!(csv, "{},{team}", &*NewKey::generate(&form).text).expect("a text");
    }
    let file = gateway.file();
    let arguments = ["key", "-c", file.to_str().expect("UTF-8"), "import", "--from", "csv"];
    let imported = Program::given(&arguments, &csv);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);

    let get = |query: &str| {
        let mut client = Client::connect(gateway.addresses()[1]);
        let target = format!("/v1/keys?{query}");
        let page = client.get(&target, &["Authorization: Bearer read-0123456789abcdef"]);
        assert_eq!(page.status, 200, "{page:?}");
        page.json()
    };
    let mut after = String::new();
    for _ in 0..5 {
        let before = work(&redis);
        let page = get(&format!("limit={PAGE}{after}"));
        let [bytes, commands] = work(&redis);
        let bytes = bytes - before[0];
        let commands = commands - before[1];
        assert_eq!(page["items"].as_array().map(Vec::len), Some(PAGE));
        assert!(bytes < MAX_BYTES && commands < MAX_COMMANDS, "{bytes} bytes, {commands} commands");
        after = format!("&after={}", page["next"].as_str().expect("there are more"));
    }
    // A filter that few keys pass looks at a bounded number in each call.
    let mut found = 0;
    let mut calls = 0;
    let mut after = String::new();
    loop {
        let before = work(&redis);
        let page = get(&format!("team=rare&limit=1000{after}"));
        let commands = work(&redis)[1] - before[1];
        assert!(commands < 6000, "{commands} commands for 2,000 keys");
        found += page["items"].as_array().expect("a list").len();
        calls += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(found, KEYS / 1000);
    assert!(calls >= KEYS / 2000, "{calls}");
    let listed = key(&gateway, &["list"]);
    let ids: BTreeSet<&str> =
        listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((listed.stdout.lines().count(), ids.len()), (KEYS, KEYS));
    let exported = key(&gateway, &["export"]).stdout;
    let arguments = ["key", "-c", file.to_str().expect("UTF-8"), "import", "--from", "file"];
    let again = Program::given(&arguments, &exported);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stderr.contains("0 keys are stored, and 20000 were there"), "{}", again.stderr);
}
