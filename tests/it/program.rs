//! The command line: exit codes and output.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::{Gateway, Origin, Program, signal};

const GOOD: &str = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                    routes: [{ path: \"/*\", respond: { body: ok } }]\n";
const BAD: &str = "listeners: [{ address: nowhere }]\n\
                   routes: [{ path: \"/*\", respond: { body: ok }, polices: [x] }]\n";

/// A file with this text, in a directory that exists as long as the first value.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("gateway.yaml");
    std::fs::write(&path, text).expect("a file");
    (directory, path.display().to_string())
}

#[test]
fn a_missing_file_is_wrong_usage() {
    for command in ["run", "check"] {
        let output = Program::run(&[command, "-c", "/nowhere/gateway.yaml"]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{command}");
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
        assert!(output.stderr.contains("/nowhere/gateway.yaml"), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
}

#[test]
fn a_broken_file_is_reported_completely() {
    let (_directory, path) = file(BAD);
    let reports = ["run", "check"].map(|command| {
        let output = Program::run(&[command, "-c", &path]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{command}");
        output.stderr
    });
    assert_eq!(reports[0], reports[1]);
    assert!(reports[0].contains(&format!("{path}:1:")), "{}", reports[0]);
    assert!(reports[0].contains(&format!("{path}:2:")), "{}", reports[0]);
    assert!(reports[0].contains("did you mean \"policies\"?"), "{}", reports[0]);
}

#[test]
fn a_valid_file_is_reported_as_good() {
    let (_directory, path) = file(GOOD);
    let output = Program::run(&["check", "-c", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let summary = "good (1 listener, 1 route, 0 policies, 0 upstreams)";
    assert_eq!(output.stdout, format!("{path}: {summary}\n"));
}

/// The exit code and the errors of a command whose output is closed.
fn unread(arguments: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Program::command().args(arguments).stdout(writer).output();
    let output = output.expect("the program was built");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

/// As in `tollgate key list | head`, but the reader is gone before the first line.
#[test]
fn a_reader_that_needs_no_more_is_no_failure() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("keys.redb");
    let (_directory, path) = file(&format!(
        "client: {{ keys: {{}} }}\nstore: {{ keys: {{ path: {store:?} }} }}\n{GOOD}"
    ));
    let made = Program::run(&["key", "-c", &path, "create", "--store", "--first", "--team", "a"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let id = made.stdout.split('_').nth(1).expect("it has an id");
    for arguments in [
        &["schema"][..],
        &["completions", "bash"],
        &["ratelimit", "--print-config"],
        &["check", "-c", &path, "--routes"],
        &["key", "-c", &path, "list"],
        &["key", "-c", &path, "list", "--json"],
        &["key", "-c", &path, "export"],
        &["key", "-c", &path, "show", id],
        &["team", "-c", &path, "set", "a", "--plan", "gold"],
        &["team", "-c", &path, "list"],
    ] {
        assert_eq!(unread(arguments), (Some(0), String::new()), "{arguments:?}");
    }
    // But the text of a key is written only once.
    let (code, told) = unread(&["key", "-c", &path, "create", "--store"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(" is made, but its text cannot be written: "), "{told}");
    assert!(told.contains("with tollgate key rotate "), "{told}");
}

/// A script reads the exit code, as in `tollgate check --json new.yaml | head -1`.
#[test]
fn a_verdict_stays_when_the_output_is_closed() {
    let (_directory, bad) = file(BAD);
    let (_directory_too, limited) = file(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { each: { key: ip, limit: 1/day } }\n\
         routes: [{ path: \"/*\", policies: [each], respond: { body: ok } }]\n",
    );
    let explain = ["explain", "-c", &limited, "--used", "1", "http://a.test/"];
    for (arguments, code) in [
        (&["check", "--json", "-c", &bad][..], 2),
        (&explain, 3),
        (&["health", "--admin", "http://127.0.0.1:1"], 1),
        (&["status", "--admin", "http://127.0.0.1:1"], 1),
        (&["top", "--once", "--admin", "http://127.0.0.1:1"], 1),
    ] {
        assert_eq!(unread(arguments).0, Some(code), "{arguments:?}");
    }
}

#[test]
fn the_text_of_a_new_key_is_not_lost_in_silence() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.yaml");
    let path = path.to_str().expect("UTF-8");
    let (code, told) = unread(&["key", "create", "--file", path, "--name", "one"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("its text cannot be written"), "{told}");
    assert!(told.contains("remove its entry, and make another key"), "{told}");
    assert_eq!(unread(&["key", "create"]).0, Some(1));
    // A device has no end.
    let endless = Program::run(&["key", "create", "--file", "/dev/zero"]);
    assert_eq!(endless.code, Some(2), "{}", endless.stderr);
    assert!(endless.stderr.contains("not a regular file"), "{}", endless.stderr);
}

/// A script that rotates logs signals every process of this name.
#[test]
fn sigusr1_ends_no_command() {
    let (_directory, path) = file(GOOD);
    let mut command = Program::command();
    command.args(["replay", "-c", &path, "-"]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut replay = command.spawn().expect("the program was built");
    let mut log = replay.stdin.take().expect("it was piped");
    let line = b"192.0.2.7 - - [10/Oct/2025:13:55:36 +0000] \"GET / HTTP/1.1\" 200 2\n";
    // A pipe has room for 64 KiB, so the command reads when all is written.
    log.write_all(&line.repeat(4096)).expect("it reads");
    signal(&replay, "USR1");
    drop(log);
    let status = replay.wait().expect("it is our child");
    // No policy has judged a request.
    assert_eq!((status.signal(), status.code()), (None, Some(1)));
}

#[test]
fn a_table_shows_the_routes() {
    let (_directory, path) = file(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         upstreams: { app: { endpoints: [\"builtin:echo\"] } }\n\
         policies:\n\
         \x20 burst: { key: ip, limit: 20/s }\n\
         \x20 jobs: { key: ip, limit: 3, algorithm: concurrency, mode: shadow }\n\
         routes:\n\
         \x20 - { name: health, path: /health, respond: { body: ok } }\n\
         \x20 - { path: \"/old/{id}\", redirect: { to: \"/new/{id}\", status: 301 } }\n\
         \x20 - { name: calls, hosts: [a.test, \"*.b.test\"], path: /grpc.*, methods: [POST], \
         headers: { x-key: secret }, policies: [burst, jobs], upstream: app }\n",
    );
    let output = Program::run(&["check", "--routes", "-c", &path]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let (summary, table) = output.stdout.split_once("\n\n").expect("a table");
    assert!(summary.ends_with("good (1 listener, 3 routes, 2 policies, 1 upstream)"), "{summary}");
    assert_eq!(
        table,
        "\
ORDER  NAME    HOSTS             METHODS  FIELDS  PATH       POLICIES                         ACTION
1      health  any               any      any     /health    -                                respond 200
2      -       any               any      any     /old/{id}  -                                redirect 301
3      calls   a.test, *.b.test  POST     x-key   /grpc.*    burst (20/1s), jobs (3, shadow)  upstream app

The first route that matches is taken. A request that matches none gets 404.
"
    );
}

/// A value that may be secret is shown as it is written.
#[test]
fn a_table_does_not_show_the_values_of_variables() {
    let hook = "{ path: \"/hooks/${HOOK:-hush}\", hosts: [\"${HOST:-hush}.test\"], respond: {} }";
    let (_directory, path) = file(&GOOD.replace("routes: [", &format!("routes: [{hook}, ")));
    let output = Program::run(&["check", "--routes", "-c", &path]);
    assert!(
        output.stdout.contains("${HOST:-hush}.test  /hooks/${HOOK:-hush}"),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("/hush"), "{}", output.stdout);
}

#[test]
fn a_table_omits_columns_in_which_all_routes_are_equal() {
    let (_directory, path) = file(GOOD);
    let output = Program::run(&["check", "--routes", "-c", &path]);
    let table = "ORDER  NAME  PATH  POLICIES  ACTION\n1      -     /*    -         respond 200\n\n\
                 The first route that matches is taken. Every request matches one.\n";
    assert!(output.stdout.ends_with(table), "{}", output.stdout);
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let (_directory, path) = file(&GOOD.replace("127.0.0.1:0", &address));
    let output = Program::run(&["run", "-c", &path]);
    assert_eq!(output.code, Some(1));
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", output.stderr);
    assert!(lines[0].starts_with(&format!("error: cannot listen on {address}: ")), "{}", lines[0]);
    assert!(lines[0].contains("another program has this port"), "{}", lines[0]);
}

#[test]
fn an_access_log_that_cannot_be_opened_is_reported_in_one_line() {
    let log = "telemetry: { access_log: { path: /nowhere/access.log } }\n";
    let (_directory, path) = file(&format!("{GOOD}{log}"));
    let output = Program::run(&["run", "-c", &path]);
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(output.stderr.contains("/nowhere/access.log"), "{}", output.stderr);
}

#[test]
fn contradictory_arguments_are_wrong_usage() {
    for arguments in [
        &["run", "--prot", "80"][..],
        &["serve"],
        &[],
        &["run", "--to", "http://127.0.0.1:9000"],
        &["run", "--limit", "1/s"],
        &["run", "--to", "127.0.0.1", "--limit", "1/s"],
        &["run", "--to", "builtin:echo", "--limit", "often"],
        &["run", "--to", "builtin:echo", "--limit", "1/s", "--key", "shoe"],
        &["run", "--to", "builtin:echo", "--limit", "1/s", "-c", "gateway.yaml"],
    ] {
        let output = Program::run(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_schema_describes_the_file() {
    let output = Program::run(&["schema"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let schema: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert!(schema["$schema"].as_str().is_some_and(|uri| uri.contains("2020-12")));
    let properties = schema["properties"].as_object().expect("properties");
    for name in [
        "listeners",
        "client",
        "store",
        "policies",
        "defaults",
        "routes",
        "upstreams",
        "headers",
        "problem_json",
        "telemetry",
        "runtime",
    ] {
        assert!(properties[name].is_object(), "{name}");
    }
}

#[test]
fn completions_are_for_the_program() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Program::run(&["completions", shell]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(output.stdout.contains("tollgate"), "{shell}");
    }
}

#[test]
fn help_and_version_succeed() {
    let version = Program::run(&["--version"]);
    let text = format!("tollgate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((version.code, version.stdout), (Some(0), text));
    for command in ["run", "check", "schema", "completions"] {
        let help = Program::run(&[command, "--help"]);
        assert_eq!(help.code, Some(0));
        assert!(help.stdout.contains("Example"), "{command}: {}", help.stdout);
        assert!(Program::run(&["--help"]).stdout.contains(command));
    }
}

#[test]
fn a_gateway_runs_without_a_file() {
    let origin = Origin::hello();
    let to = format!("http://{}", origin.address());
    let gateway = Gateway::start_with(&[
        "--to",
        &to,
        "--limit",
        "2/day",
        "--key",
        "header:x-tenant",
        "--listen",
        "127.0.0.1:0",
    ]);
    let mut client = gateway.client();
    let mut status = |tenant: &str| client.get("/", &[tenant]).status;
    assert_eq!([(); 3].map(|()| status("X-Tenant: a")), [200, 200, 429]);
    assert_eq!(status("X-Tenant: b"), 200);
    assert_eq!(origin.received().len(), 3);
}

/// The first command of a new user.
#[test]
fn the_shipped_configuration_does_what_it_says() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/gateway.yaml");
    let check = Program::run(&["check", "-c", shipped]);
    assert_eq!((check.code, check.stderr.as_str()), (Some(0), ""));
    let text = std::fs::read_to_string(shipped).expect("it is shipped");
    let gateway = Gateway::start(&text.replace("0.0.0.0:8080", "127.0.0.1:0"));
    let mut client = gateway.client();
    let responses: Vec<_> = (0..12).map(|_| client.get("/hello", &["X-Try: 1"])).collect();
    let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses[..10], [200; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    let echo = responses[0].json();
    assert_eq!((&echo["method"], &echo["path"]), (&"GET".into(), &"/hello".into()));
    assert_eq!(echo["headers"]["x-try"], "1");
}
