//! `tollgate status` and `tollgate health`.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{TOKEN, command, done, run, with_socket, yaml};
use crate::support::{Gateway, eventually};

#[test]
fn the_status_is_told_in_lines_and_by_the_exit_code() {
    let (gateway, directory) = with_socket("2/day");
    let url = directory.url();
    let good = run(directory.path(), &["status", "--admin", &url]);
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    assert!(good.stdout.starts_with("ok\nVersion   "), "{}", good.stdout);
    assert!(!good.stdout.contains('\u{1b}'), "no colours: {:?}", good.stdout);
    gateway.rewrite("nonsense: 1\n");
    eventually("it is read", || gateway.log().contains("not reloaded"));
    // A credential has 50 calls in a second.
    eventually("it is told", || {
        thread::sleep(Duration::from_millis(100));
        run(directory.path(), &["status", "--admin", &url]).code == Some(1)
    });
    let bad = run(directory.path(), &["status", "--admin", &url]);
    assert!(bad.stdout.starts_with("degraded\n\nreload_failed since 20"), "{}", bad.stdout);
    assert!(bad.stdout.contains("\"nonsense\" is not a field"), "{}", bad.stdout);
    let json = run(directory.path(), &["status", "--admin", &url, "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["reasons"][0]["code"], "reload_failed");
    drop(gateway);
    let away = run(directory.path(), &["status", "--admin", &url]);
    assert!(away.code == Some(1) && away.stderr.contains("cannot connect"), "{}", away.stderr);
    assert_eq!(run(directory.path(), &["status", "--admin", "ftp://a"]).code, Some(2));
}

#[test]
fn health_is_one_word_without_a_token() {
    let admin = format!(
        "admin: {{ address: \"127.0.0.1:0\", token: {TOKEN}, probe: {{ address: \"127.0.0.1:0\" }} }}"
    );
    let gateway = Gateway::start(&yaml("2/day", &admin));
    let addresses = gateway.addresses();
    let empty = tempfile::tempdir().expect("a directory");
    let url = format!("http://{}", addresses[1]);
    for (argument, word) in [("--admin", "ready\n"), ("--live", "alive\n")] {
        let mut health = command(empty.path(), &["health", argument]);
        if argument == "--admin" {
            health.arg(&url);
        }
        let health = done(health.env("TOLLGATE_ADMIN", &url));
        assert_eq!((health.code, &*health.stdout, &*health.stderr), (Some(0), word, ""));
    }
    // With a file, the listener for health checks is asked: here the admin listener does not answer.
    let file = empty.path().join("gateway.yaml");
    let probed = admin.replacen("127.0.0.1:0", "127.0.0.1:1", 1).replacen(
        "127.0.0.1:0",
        &addresses[2].to_string(),
        1,
    );
    fs::write(&file, yaml("2/day", &probed)).expect("a file");
    let probed = run(empty.path(), &["health"]);
    assert_eq!((probed.code, &*probed.stdout), (Some(0), "ready\n"), "{}", probed.stderr);
    drop(gateway);
    let away = run(empty.path(), &["health"]);
    assert_eq!((away.code, &*away.stdout), (Some(1), "unreachable\n"));
    assert!(away.stderr.starts_with("error: http://127.0.0.1:"), "{}", away.stderr);
}

#[test]
fn a_gateway_that_drains_is_alive_and_not_ready() {
    let (gateway, directory) = with_socket("2/day");
    let url = directory.url();
    let mut client = gateway.client();
    // A request in progress keeps the process.
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    gateway.terminate();
    eventually("it drains", || {
        thread::sleep(Duration::from_millis(100));
        run(directory.path(), &["health", "--admin", &url]).stdout == "draining\n"
    });
    let live = run(directory.path(), &["health", "--live", "--admin", &url]);
    assert_eq!((live.code, &*live.stdout), (Some(0), "alive\n"));
}
