//! The file of keys while a gateway runs, and the commands that write it.

use std::thread;
use std::time::Duration;

use super::{DEMANDING, Keys, field, id};
use crate::support::{Client, Program, eventually};

#[test]
fn a_changed_file_is_in_force_by_itself() {
    let keys = Keys::new();
    let first = keys.create(&[]);
    let gateway = keys.start("failures: 100000/minute", DEMANDING);
    let status = |key: &str| gateway.client().get("/", &[&field(key)]).status;
    assert_eq!(status(&first), 200);
    let second = keys.create(&[]);
    eventually("the new key is known", || status(&second) == 200);
    let text = keys.text();
    let left: Vec<&str> = text.lines().filter(|line| !line.contains(id(&first))).collect();
    keys.rewrite(&left.join("\n"));
    eventually("the removed key is not known", || status(&first) == 401);
    assert_eq!(status(&second), 200);
}

#[test]
fn a_broken_file_keeps_the_keys_and_is_reported() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let admin = "admin: { address: \"127.0.0.1:0\", tokens: [{ name: a, role: read, \
                 token: read-0123456789abcdef }], hosts: [gateway.test] }\n";
    let gateway = keys.start("", &format!("{DEMANDING}\n{admin}"));
    let get = |path: &str| {
        let mut client = Client::connect(gateway.addresses()[1]);
        client.get(path, &["Authorization: Bearer read-0123456789abcdef"]).text()
    };
    let metric = |value: u8| {
        format!("tollgate_key_file_last_load_successful{{file={:?}}} {value}", keys.shown())
    };
    assert!(get("/metrics").contains(&metric(1)));
    let good = keys.text();
    keys.rewrite(&format!("{good}- {{ id: 000000000000, sha256: {key} }}\n"));
    eventually("the mistake is known", || {
        thread::sleep(Duration::from_millis(100));
        get("/metrics").contains(&metric(0)) && get("/v1/status").contains("key_file_broken")
    });
    assert!(
        gateway.log().contains("\"sha256\" has a key, and not the hash of one"),
        "{}",
        gateway.log()
    );
    let told = [gateway.log(), get("/v1/config"), get("/v1/status"), get("/metrics")].concat();
    assert!(!told.contains(&key[16..]), "no secret is shown");
    assert_eq!(gateway.client().get("/", &[&field(&key)]).status, 200, "the keys stay");
    keys.rewrite(&good);
    eventually("it is well", || {
        thread::sleep(Duration::from_millis(100));
        get("/metrics").contains(&metric(1)) && !get("/v1/status").contains("key_file_broken")
    });
}

#[test]
fn a_gateway_does_not_start_with_a_broken_file() {
    let keys = Keys::new();
    keys.rewrite("keys:\n- { id: x }\n- { sha256: y }\n");
    let file = keys.0.path().join("gateway.yaml");
    std::fs::write(&file, keys.yaml("", DEMANDING)).expect("a file");
    let checked = Program::run(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(checked.code, Some(2));
    for told in [
        "2:3: the key has no \"sha256\"",
        "2:9: an id has 12",
        "3:3: the key has no \"id\"",
        "3:13: the SHA-256",
    ] {
        assert!(checked.stderr.contains(told), "{told} | {}", checked.stderr);
    }
}

#[test]
fn a_key_is_written_to_the_end_of_the_list_and_nowhere_else() {
    let keys = Keys::new();
    keys.rewrite("# ours\nkeys:\n  - id: 000000000000\n    sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
    let key = keys.create(&["--name", "a: \"b\"", "--label", "env=prod"]);
    let text = keys.text();
    assert!(text.starts_with("# ours\nkeys:\n  - id: 000000000000\n"), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.starts_with("  - {")), "{text}");
    assert!(!text.contains(&key[16..]), "the file has the hash alone");
    let other = "keys: []\nteams: {}\n";
    keys.rewrite(other);
    let refused = Program::run(&["key", "create", "--file", &keys.shown()]);
    assert_eq!((refused.code, keys.text()), (Some(2), other.to_owned()), "{}", refused.stderr);
    let wrong = Program::run(&["key", "create", "--expires", "tomorrow"]);
    assert_eq!((wrong.code, &*wrong.stdout), (Some(2), ""), "{}", wrong.stderr);
}

/// Regression: each run reads the file, and replaces it. What another one has written in between was
/// lost, though its key was handed out.
#[test]
fn keys_that_are_made_at_the_same_time_are_all_in_the_file() {
    let keys = Keys::new();
    let made: Vec<String> = thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| keys.create(&[]))).collect();
        runs.into_iter().map(|it| it.join().expect("it is made")).collect()
    });
    let text = keys.text();
    assert_eq!(text.lines().count(), 1 + made.len(), "{text}");
    for key in &made {
        assert!(text.contains(id(key)), "{} is not in {text}", id(key));
    }
}
