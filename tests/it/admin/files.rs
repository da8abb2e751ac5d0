//! Files that are no regular files, or do not answer: reloads and calls fail with the cause, and
//! later ones go on.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{AdminClient, OPERATE, gateway, settles, yaml};
use crate::support::{Gateway, Program, Response, eventually};

const YAML: &str = "Content-Type: application/yaml";

fn put(client: &AdminClient, target: &str, body: &str) -> Response {
    client.send("PUT", target, &[YAML, "If-Match: *"], body)
}

/// The text of the reason `reload_failed`, if there is one.
fn failure(client: &AdminClient) -> Option<String> {
    let status = client.get("/v1/status");
    assert_eq!(status.status, 200, "{}", status.text());
    let status = status.json();
    let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
    let reason = reasons.iter().find(|it| it["code"] == "reload_failed");
    reason.and_then(|it| it["text"].as_str()).map(str::to_owned)
}

/// The text of the reason `reload_failed`, when there is one.
fn reported(client: &AdminClient) -> String {
    let mut why = None;
    settles("the reload fails", || {
        why = failure(client);
        why.is_some()
    });
    why.unwrap_or_default()
}

/// A pipe beside the configuration file.
fn pipe(gateway: &Gateway, name: &str) -> PathBuf {
    let path = gateway.file().with_file_name(name);
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is there").success());
    path
}

/// A configuration that says `text`.
fn saying(text: &str) -> String {
    yaml("", "").replace("body: ok", &format!("body: \"{text}\""))
}

/// Regression: a FIFO in the place of a file stopped all reloads and calls until a restart, without
/// a word.
#[test]
fn a_fifo_fails_its_reload_or_call_and_later_ones_go_on() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    pipe(&gateway, "pipe");
    let listener = "listeners: [{ address: \"127.0.0.1:0\"";
    let named = [
        saying("${file:pipe}"),
        saying("x") + "client: { geo: { database: pipe } }\n",
        saying("x").replace(
            listener,
            &format!("{listener}, tls: {{ certificates: [{{ cert: pipe, key: pipe }}] }}"),
        ),
        saying("x") + "store: { redis: { url: \"rediss://a\", tls: { ca: pipe } } }\n",
    ];
    for (number, text) in named.iter().enumerate() {
        gateway.rewrite(text);
        let why = reported(&client);
        assert!(why.contains("pipe") && why.contains("it is a FIFO"), "{why}");
        let refused = put(&client, "/v1/config", text);
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.text().contains("it is a FIFO"), "{}", refused.text());
        let checked = client.send("POST", "/v1/config/check", &[YAML], text);
        assert_eq!(checked.status, 422, "{}", checked.text());
        gateway.reload(&saying(&number.to_string()));
        let who = format!("X-Who: {number}");
        assert_eq!(gateway.client().get("/", &[&who]).text(), number.to_string());
        settles("it is mended", || failure(&client).is_none());
    }
    // The configuration file itself.
    fs::rename(pipe(&gateway, "other"), gateway.file()).expect("both are in one directory");
    let why = reported(&client);
    assert!(why.contains("gateway.yaml: it is a FIFO"), "{why}");
    let refused = put(&client, "/v1/config?write=true", &yaml("", ""));
    assert!(matches!(refused.status, 403 | 409), "{}", refused.text());
    gateway.reload(&saying("good"));
    assert_eq!(put(&client, "/v1/config", &saying("put")).status, 200);
    assert_eq!(gateway.client().get("/", &["X-Who: put"]).text(), "put");
}

/// The same for a file system that does not answer.
#[test]
fn a_file_system_that_does_not_answer_is_reported_and_later_reloads_go_on() {
    let gateway = Gateway::start_with_dead_mount(&yaml("", ""));
    let client = AdminClient::new(&gateway, OPERATE);
    let beside = |name: &str| gateway.file().with_file_name(name);
    let link = |to: &Path| {
        symlink(to, beside("new-link")).expect("a link");
        fs::rename(beside("new-link"), beside("link")).expect("both are in one directory");
    };
    fs::write(beside("good"), "linked").expect("a file");
    link(&beside("good"));
    let linked = saying("${file:link}");
    gateway.reload(&linked);
    assert_eq!(gateway.client().get("/", &["X-Who: a"]).text(), "linked");
    // A file in use does not answer any more.
    link(&beside("dead").join("file"));
    let why = reported(&client);
    assert!(why.contains("/link does not answer"), "{why}");
    let metrics = client.get("/metrics").text();
    assert!(metrics.contains("tollgate_config_last_reload_successful 0"), "{metrics}");
    let late = put(&client, "/v1/config", &linked.replace("3/day", "4/day"));
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("/link has not answered for 4s"), "{}", late.text());
    for _ in 0..2 {
        let checked = client.send("POST", "/v1/config/check", &[YAML], &linked);
        assert_eq!(checked.status, 503, "{}", checked.text());
        assert!(checked.text().contains("/link has not answered for 4s"), "{}", checked.text());
    }
    assert_eq!(client.send("POST", "/v1/config/check", &[YAML], &saying("x")).status, 200);
    // A change of the configuration file is noticed nevertheless.
    gateway.reload(&saying("other"));
    settles("it is mended", || failure(&client).is_none());
    assert_eq!(put(&client, "/v1/config", &saying("put")).status, 200);
    gateway.rewrite(&saying("${file:dead/file}"));
    let why = reported(&client);
    assert!(why.contains("dead/file has not answered for 15s"), "{why}");
    gateway.reload(&saying("new"));
    assert_eq!(gateway.client().get("/", &["X-Who: a"]).text(), "new");
}

/// The user of the process may give a pipe. Its configuration is read once.
#[test]
fn a_configuration_from_a_pipe_is_read_once() {
    let text = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                routes: [{ path: /*, respond: { body: ok } }]\n";
    let script = format!("printf '%s' '{text}' | \"$0\" check -c /dev/stdin");
    let checked = Program::by_shell(&script).output().expect("the program was built");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && said.contains("/dev/stdin: good"), "{checked:?}");
    // A shell gives a text of this kind by a pipe.
    let script = format!("exec \"$0\" \"$@\" <<'END'\n{text}END\n");
    let gateway = Gateway::start_by_shell(&script, &["-c", "/dev/stdin"]);
    assert_eq!(gateway.client().get("/", &[]).text(), "ok");
    gateway.signal("HUP");
    eventually("it is refused", || gateway.log().contains("/dev/stdin: it is a FIFO"));
    assert_eq!(gateway.client().get("/", &[]).text(), "ok");
}
