//! Files with API keys, and their mistakes.

use tollgate_core::api_keys::{KeyForm, KeyTable, NewKey, Override, Sought};
use tollgate_core::time::Span;

use super::*;

fn compiled(text: &str) -> Result<KeyTable, String> {
    let problems = Problems::default();
    let table = compile(text, &KeyForm::default(), &problems).map(|(table, _)| table);
    let is_broken = problems.any_errors();
    let report = problems.report("keys.yaml", text, &Excerpts::default());
    let told = report
        .problems()
        .map(|it| format!("{}:{}: {} | {}", it.line, it.column, it.message, it.advice));
    match is_broken {
        true => Err(told.collect::<Vec<_>>().join("\n")),
        false => table.ok_or_else(|| "there is no table".to_owned()),
    }
}

fn mistakes(text: &str) -> String {
    compiled(text).map(|_| ()).expect_err("there are mistakes")
}

const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_file_has_keys_with_their_teams() {
    let other = DIGEST.replace('b', "c");
    let table = compiled(&format!(
        "teams:\n  acme: {{ plan: pro, limits: {{ per-team: 10/s }}, labels: {{ tier: gold }} }}\n\
         keys:\n- {{ id: 7f2m9qd0v3xk, name: \"acme, prod\", team: acme, sha256: [{DIGEST}, {other}],\n\
         \x20   expires: 2027-06-30, limits: {{ per-key: 500/minute, jobs: 3 }}, labels: {{ env: prod }} }}\n\
         - {{ id: 000000000000, sha256: \"{}\", disabled: true, limits: {{ a: unlimited }} }}\n",
        "a".repeat(64)
    ));
    let table = table.unwrap();
    assert_eq!(table.len(), 2);
    let entry = |id: &str| &**table.find(&Sought::Id(id.parse().unwrap())).unwrap();
    let acme = entry("7f2m9qd0v3xk");
    assert_eq!((acme.part("team"), acme.part("plan")), (Some("acme"), Some("pro")));
    assert_eq!((acme.part("env"), acme.part("tier")), (Some("prod"), Some("gold")));
    assert_eq!(acme.key.expires.unwrap().to_string(), "2027-06-30T00:00:00.000Z");
    let limit = |policy| acme.limit(policy).map(|(limit, _)| limit);
    let minute = Some(Span::from_secs(60));
    assert_eq!(limit("per-key"), Some(Override::Limited { units: 500, window: minute }.into()));
    assert_eq!(limit("jobs"), Some(Override::Limited { units: 3, window: None }.into()));
    assert_eq!(limit("other"), None);
    let second = Some(Span::SECOND);
    assert_eq!(limit("per-team"), Some(Override::Limited { units: 10, window: second }.into()));
    for digest in [DIGEST, &other] {
        let found = table.find(&Sought::Digest(digest.parse().unwrap())).unwrap();
        assert_eq!(found.key.id, acme.key.id);
    }
    assert!(entry("000000000000").key.disabled);
    assert!(compiled("").unwrap().is_empty() && compiled("keys: []").unwrap().is_empty());
}

#[test]
fn all_mistakes_are_reported_with_their_places() {
    let told = mistakes(&format!(
        "teams:\n  acme: {{ plan: \" pro\" }}\nkeys:\n- {{ sha256: {DIGEST} }}\n- {{ id: 7f2m9qd0v3xk }}\n\
         - {{ id: 7f2m9qd0v3xk, sha256: {DIGEST}, team: acne }}\n- {{ id: x, sha256: abc, expire: 2027 }}\n\
         - {{ id: 111111111111, sha256: [], labels: {{ team: a }} }}\n"
    ));
    let lines: Vec<&str> = told.lines().collect();
    let expected = [
        "2:17: \"plan\" must have",
        "4:3: the key has no \"id\"",
        "5:3: the key has no \"sha256\"",
        "6:9: the id 7f2m9qd0v3xk is also that of the key on line 5",
        "6:31: the same hash is on line 4",
        "6:103: there is no team \"acne\" | did you mean \"acme\"?",
        "7:9: an id has 12 characters",
        "7:20: the SHA-256 of a key has 64",
        "7:25: \"expire\" is not a field of \"key\" | did you mean \"expires\"?",
        "8:31: a key has one or two digests, and not 0",
        "8:45: a label cannot have the name \"team\"",
    ];
    assert_eq!(lines.len(), expected.len(), "{told}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line} | {expected}");
    }
}

#[test]
fn a_key_in_the_place_of_its_hash_is_not_shown() {
    let NewKey { text, .. } = NewKey::generate(&KeyForm::default());
    let other = NewKey::generate(&KeyForm::new("acme").unwrap()).text;
    let told = mistakes(&format!(
        "keys:\n- {{ id: 7f2m9qd0v3xk, sha256: {text} }}\n- {{ id: \"{other}\", sha256: [\"{other}\"] }}\n"
    ));
    assert_eq!(told.matches("\"sha256\" has a key, and not the hash of one").count(), 2, "{told}");
    assert!(told.contains("tollgate key hash") && told.contains("\"id\" has a key"), "{told}");
    for secret in [&text, &other] {
        assert!(!told.contains(&secret[secret.len() - 43..]), "{told}");
    }
}

/// The bounds of YAML files in general would not admit it.
#[test]
fn a_file_may_have_100_000_keys_and_no_more() {
    let entry = |n: u64| {
        let id = tollgate_core::api_keys::KeyId::from_bits(n);
        format!("- {{ id: \"{id}\", name: k, team: acme, sha256: [\"{n:064x}\"] }}\n")
    };
    let entries: String = (0..100_000).map(entry).collect();
    let text = format!("teams: {{ acme: {{ plan: pro }} }}\nkeys:\n{entries}");
    assert_eq!(compiled(&text).map(|table| table.len()), Ok(100_000));
    // Keys without fields have other mistakes, too, and are read in less time.
    let told = mistakes(&format!("keys:\n{}", "- {}\n".repeat(100_001)));
    assert!(told.contains("there are 100001 keys, and there may be 100000"), "{told}");
}
