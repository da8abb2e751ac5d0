//! Limits of keys and teams.

use tollgate_core::api_keys::{KeyForm, NewKey};

use super::{Keys, field, id, invented};
use crate::support::{Client, eventually};

const POLICIES: &str = "policies:\n\
    \x20 per-key: { key: api_key, limit: 3/hour, plans: { from: \"api_key:plan\", limits: { pro: 5/hour } } }\n\
    \x20 per-team: { key: \"api_key:team\", limit: 100/hour, missing_key: skip }\n\
    routes: [{ path: /*, policies: [per-key, per-team], respond: { body: ok } }]";

#[test]
fn both_secrets_of_a_rotation_share_one_counter() {
    let keys = Keys::new();
    let form = KeyForm::default();
    let old = NewKey::generate(&form);
    let new = NewKey::with_id(&form, old.id);
    let entry = format!("id: {}, sha256: [{}, {}]", old.id, old.digest, new.digest);
    keys.rewrite(&format!("keys:\n- {{ {entry} }}\n"));
    let gateway = keys.start("", &POLICIES.replace("3/hour", "100/hour"));
    let mut client = gateway.client();
    let remaining = |client: &mut Client, key: &str| {
        client.get("/", &[&field(key)]).number("X-Ratelimit-Remaining")
    };
    let both = [&old.text, &new.text, &old.text, &new.text];
    assert_eq!(both.map(|text| remaining(&mut client, text)), [99, 98, 97, 96]);
    let lines = gateway.access_lines(4);
    assert!(lines.iter().all(|line| line["key_id"] == old.id.as_str()));
    // The old secret is removed: it is then one of an unknown client.
    keys.rewrite(&format!("keys:\n- {{ id: {}, sha256: {} }}\n", old.id, new.digest));
    eventually("the file is read again", || gateway.log().contains(" reloaded file="));
    client.get("/", &[&field(&old.text)]);
    client.get("/", &[&field(&new.text)]);
    let lines = gateway.access_lines(6);
    assert_eq!((lines[4].get("key_id"), &lines[5]["key_id"]), (None, &old.id.as_str().into()));
}

#[test]
fn a_limit_is_that_of_the_key_then_the_team_then_the_plan() {
    let keys = Keys::new();
    let own = keys.create(&["--limit", "per-key=50/hour", "--plan", "pro"]);
    let planned = keys.create(&["--plan", "pro"]);
    let plain = keys.create(&[]);
    let of_team = keys.create(&[]);
    let text = keys.text().replace(
        &format!("id: \"{}\"", id(&of_team)),
        &format!("id: \"{}\", team: acme", id(&of_team)),
    );
    keys.rewrite(&format!(
        "teams: {{ acme: {{ plan: pro, limits: {{ per-key: 70/hour }} }} }}\n{text}"
    ));
    let gateway = keys.start("", POLICIES);
    let mut client = gateway.client();
    let mut limit = |key: &str| client.get("/", &[&field(key)]).number("X-Ratelimit-Limit");
    assert_eq!([&own, &of_team, &planned, &plain].map(|key| limit(key)), [50, 70, 5, 3]);
    let file = gateway.file();
    let explain = |key: &str| {
        let file = file.to_str().expect("UTF-8");
        let header = field(key);
        let arguments = ["explain", "-c", file, "--json", "-H", &header, "http://gateway.test/"];
        crate::support::Program::run(&arguments).stdout
    };
    assert!(
        explain(&own).contains("\"limit_from\":\"key\"")
            || explain(&own).contains("\"limit_from\": \"key\""),
        "{}",
        explain(&own)
    );
}

/// Unknown keys share the counter of their address, so that a client cannot invent counters.
#[test]
fn unknown_keys_count_by_address() {
    let keys = Keys::new();
    keys.create(&[]);
    let gateway = keys.start("", POLICIES);
    let mut client = gateway.client();
    let statuses = [1, 2, 3, 4].map(|_| client.get("/", &[&field(&invented())]).status);
    assert_eq!(statuses, [200, 200, 200, 429]);
}
