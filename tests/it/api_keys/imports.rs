//! Keys of other programs are imported, and hold with their old texts.

use tollgate_core::api_keys::KeyDigest;

use super::stored::{key, node, status};
use crate::support::{Gateway, Output, Program, eventually};

const TEXTS: [&str; 3] =
    ["sk-0123456789abcdef-one", "sk-0123456789abcdef-two", "sk-0123456789abcdef-off"];

fn gateway(directory: &tempfile::TempDir) -> Gateway {
    let path = directory.path().join("keys.redb");
    node(&format!("keys: {{ path: {path:?} }}"), "foreign: true")
}

fn import(gateway: &Gateway, arguments: &[&str], input: &str) -> Output {
    let file = gateway.file();
    let file = file.to_str().expect("the path is UTF-8");
    Program::given(&[&["key", "-c", file, "import"], arguments].concat(), input)
}

fn hash(text: &str) -> String {
    KeyDigest::of(text.as_bytes()).to_string()
}

#[test]
fn plain_texts_of_kong_are_hashed_and_what_is_left_out_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory);
    let [one, two, _] = TEXTS;
    let input = format!(
        "consumers:\n- username: ann\n  keyauth_credentials: [{{ key: {one}, ttl: 60 }}]\n\
         keyauth_credentials:\n- {{ consumer: bob, key: {two} }}\n- {{ consumer: bob, key: short }}\n\
         plugins: [{{ name: key-auth }}]\n"
    );
    let done = import(&gateway, &["--from", "kong"], &input);
    assert_eq!(done.code, Some(1), "a key is refused: {}", done.stderr);
    for told in [
        "ttl of 1 key (1)",
        "plugins (1): they are not API keys",
        "key 3: ",
        "2 keys are stored, and 0 were there before",
    ] {
        assert!(done.stderr.contains(told), "{told}: {}", done.stderr);
    }
    eventually("the keys hold", || status(&gateway, one) == 200 && status(&gateway, two) == 200);
    let exported = key(&gateway, &["export"]).stdout;
    assert!(exported.contains("\"consumer\":\"ann\""), "{exported}");
    assert!(!exported.contains(one) && !gateway.log().contains(one) && !done.stderr.contains(one));
}

#[test]
fn hashes_of_litellm_and_unkey_are_taken_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory);
    let [one, two, off] = TEXTS;
    let rows = format!(
        "token,key_alias,team_id,rpm_limit,blocked,max_budget\n\
         {},one,acme,7,f,10\n{},off,,,t,\n",
        hash(one),
        hash(off)
    );
    let done = import(&gateway, &["--from", "litellm", "--rpm", "each"], &rows);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("max_budget of 1 key (1)"), "{}", done.stderr);
    let rows = format!("[{{\"hash\": \"{}\", \"enabled\": true, \"name\": \"two\"}}]", hash(two));
    let done = import(&gateway, &["--from", "unkey"], &rows);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    eventually("the keys hold", || status(&gateway, one) == 200 && status(&gateway, two) == 200);
    assert_eq!(status(&gateway, off), 401, "it is switched off");
    let listed = key(&gateway, &["list", "--json"]).stdout;
    assert!(
        listed.contains("\"each\":\"7/1m\"") && listed.contains("\"team\":\"acme\""),
        "{listed}"
    );
    let again = import(&gateway, &["--from", "unkey"], &rows);
    assert!(again.stderr.contains("0 keys are stored, and 1 were there"), "{}", again.stderr);
    let other = import(&gateway, &["--from", "unkey", "--rpm", "each"], &rows);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    let broken = import(&gateway, &["--from", "litellm"], "{\"keys\": \"hunter2\"}");
    assert_eq!(broken.code, Some(2));
    assert!(!broken.stderr.contains("hunter2"), "{}", broken.stderr);
}

/// JSON with a mark was read as a table without rows, and the new store of keys refused all others.
#[test]
fn an_input_with_a_byte_order_mark_is_read_and_one_without_keys_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&directory);
    let [one, two, _] = TEXTS;
    for (empty, why) in [
        ("", "the input is empty"),
        ("\u{feff}", "the input is empty"),
        ("token,key_alias\n", "the input has no keys"),
    ] {
        let done = import(&gateway, &["--from", "litellm"], empty);
        assert_eq!(done.code, Some(2), "{empty:?}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{empty:?}: {}", done.stderr);
    }
    let done = import(&gateway, &["--from", "file"], "");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let json = format!("\u{feff}[{{\"token\":\"{}\"}}]", hash(one));
    let csv = format!("\u{feff}token,key_alias\n{},two\n", hash(two));
    for input in [json, csv] {
        let done = import(&gateway, &["--from", "litellm"], &input);
        assert_eq!(done.code, Some(0), "{input}: {}", done.stderr);
        assert!(done.stderr.contains("1 keys are stored"), "{input}: {}", done.stderr);
    }
    eventually("the keys hold", || status(&gateway, one) == 200 && status(&gateway, two) == 200);
}
