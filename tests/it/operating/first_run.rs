//! The first minutes: a configuration to begin with, and what a terminal shows.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{command, done, run};
use crate::support::{Output, eventually};

/// The output of the program at a terminal, which gets `input`.
fn at_terminal(directory: &Path, arguments: &str, input: &str) -> String {
    let program = env!("CARGO_BIN_EXE_tollgate");
    let script =
        format!("printf '{input}' | timeout 20 script -qec \"{program} {arguments}\" /dev/null");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(directory);
    shell.env_remove("TOLLGATE_LOG").env_remove("TOLLGATE_LOG_FORMAT").env("NO_COLOR", "1");
    let output = shell.output().expect("bash and script are installed");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

fn good(directory: &Path, file: &str) {
    let checked = run(directory, &["check", file]);
    assert_eq!((checked.code, &*checked.stderr), (Some(0), ""), "{}", checked.stderr);
}

#[test]
fn a_new_configuration_is_good_and_never_replaces_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let init = |more: &[&str]| {
        run(directory.path(), &[&["init", "--to", "http://127.0.0.1:9000"], more].concat())
    };
    let written = init(&[]);
    assert_eq!((written.code, &*written.stdout), (Some(0), ""), "{}", written.stderr);
    assert!(
        written.stderr.starts_with("gateway.yaml is written. Next:\n  tollgate check\n"),
        "{}",
        written.stderr
    );
    good(directory.path(), "gateway.yaml");
    let file = directory.path().join("gateway.yaml");
    let first = fs::read_to_string(&file).expect("it is there");
    let again = init(&["--limit", "5/s"]);
    assert!(again.code == Some(2) && again.stderr.contains("stays as it is"), "{}", again.stderr);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), first);
    assert_eq!(init(&["--limit", "5/s", "--force"]).code, Some(0));
    assert!(fs::read_to_string(&file).expect("it is there").contains("limit: 5/s "));
    let full = init(&[
        "--limit",
        "1_000/15m",
        "--key",
        "header:x-tenant",
        "--listen",
        "127.0.0.1:8081",
        "--trusted-proxies",
        "10.0.0.0/8,192.0.2.7",
        "--redis",
        "redis://127.0.0.1:6379",
        "--admin",
        "unix:/run/tollgate/admin.sock",
        "full.yaml",
    ]);
    assert_eq!(full.code, Some(0), "{}", full.stderr);
    good(directory.path(), "full.yaml");
}

/// The line of the contract: `env -i tollgate init --print --to URL | tollgate check -c -`.
#[test]
fn what_is_printed_is_good_in_an_empty_environment() {
    let empty = tempfile::tempdir().expect("a directory");
    let program = env!("CARGO_BIN_EXE_tollgate");
    let script = format!(
        "env -i {program} init --print --to http://127.0.0.1:9000 | env -i {program} check -c -"
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(empty.path()).output();
    let output = output.expect("bash is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        text(&output.stdout).starts_with("-: good (1 listener, 1 route, 1 policy, 1 upstream)")
    );
    assert_eq!(text(&output.stderr), "");
    assert!(fs::read_dir(empty.path()).expect("it is there").next().is_none(), "no file");
}

#[test]
fn without_a_terminal_nothing_is_asked() {
    let empty = tempfile::tempdir().expect("a directory");
    let silent = run(empty.path(), &["init"]);
    assert!(
        silent.code == Some(2) && silent.stderr.contains("--to http://HOST:PORT"),
        "{}",
        silent.stderr
    );
    let wrong = run(empty.path(), &["init", "--to", "127.0.0.1:9000"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("has no scheme"), "{}", wrong.stderr);
}

#[test]
fn five_questions_are_asked_at_a_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let answers = "builtin:echo\\n5/10s\\n\\n10.0.0.0/8\\n\\n";
    let shown = at_terminal(directory.path(), "init", answers);
    assert_eq!(shown.matches("] ").count(), 5, "{shown}");
    assert!(shown.contains("gateway.yaml is written"), "{shown}");
    let file = fs::read_to_string(directory.path().join("gateway.yaml")).expect("it is there");
    for part in ["- builtin:echo\n", "limit: 5/10s ", "trusted_proxies: [10.0.0.0/8]"] {
        assert!(file.contains(part), "{part}: {file}");
    }
    good(directory.path(), "gateway.yaml");
}

/// What was typed would be lost.
#[test]
fn nothing_is_asked_if_the_file_cannot_be_written() {
    let directory = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink("gone.yaml", directory.path().join("link")).expect("a link");
    for (file, why) in [
        ("absent/gateway.yaml", "No such file or directory"),
        ("link", "is there already"),
        ("--force absent/gateway.yaml", "No such file or directory"),
    ] {
        let shown = at_terminal(directory.path(), &format!("init {file}"), "builtin:echo\\n");
        assert!(shown.contains(why) && !shown.contains("] "), "{shown}");
    }
    assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 1);
}

/// The part of a file would be read by a gateway that watches it, and be in the way of the next run.
#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let conf = "server { listen 8080; location / { proxy_pass http://127.0.0.1:9000; } }\n";
    fs::write(directory.path().join("nginx.conf"), conf).expect("a file");
    for command in ["init --to builtin:echo", "import nginx -o gateway.yaml nginx.conf"] {
        let run = |limit: &str| {
            let program = env!("CARGO_BIN_EXE_tollgate");
            let script = format!("trap '' XFSZ; {limit}; exec {program} {command}");
            done(Command::new("bash").args(["-c", &script]).current_dir(directory.path()))
        };
        let full = run("ulimit -f 0");
        assert!(full.stderr.contains("File too large"), "{}", full.stderr);
        assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 1, "{command}");
        let written = run("true");
        assert_eq!(written.code, Some(0), "{}", written.stderr);
        fs::remove_file(directory.path().join("gateway.yaml")).expect("it is there");
    }
}

/// A terminal has a link to a page; a pipe, a file and a service have none.
#[test]
fn a_gateway_at_a_terminal_has_a_page_with_a_token_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("own.yaml"), OWN).expect("a file");
    let to = "run --to builtin:echo --limit 5/m --listen 127.0.0.1:0";
    let links = |text: &str| text.matches("#token=").count();
    let mut tokens = Vec::new();
    for arguments in [to, "run own.yaml"] {
        let shown = stopped(directory.path(), arguments);
        assert_eq!(links(&shown), 1, "{shown}");
        assert!(shown.contains("try:  curl -i http://127.0.0.1:"), "{shown}");
        let token = shown.split("#token=").nth(1).expect("it is there").split_whitespace().next();
        let token = token.expect("it is not empty").to_owned();
        assert!(token.len() == 43 && shown.matches(&token).count() == 1, "in no log: {shown}");
        tokens.push(token);
    }
    assert_ne!(tokens[0], tokens[1]);
    let none = stopped(directory.path(), &format!("{to} --admin none"));
    assert!(links(&none) == 0 && none.contains("try:  curl"), "{none}");
    let mut piped = command(directory.path(), &["run", "--to", "builtin:echo", "--limit", "5/m"]);
    let piped = timed(piped.args(["--listen", "127.0.0.1:0"]));
    assert!(links(&piped.stderr) == 0 && links(&piped.stdout) == 0, "{}", piped.stderr);
    assert!(!piped.stderr.contains("listening for the admin API"), "{}", piped.stderr);
}

/// The log is written by another thread, so that a text in pieces could have a line of it inside.
#[test]
fn a_text_for_the_terminal_is_one_write() {
    let directory = tempfile::tempdir().expect("a directory");
    // A policy that no route uses is a warning.
    let warned = format!("{OWN}policies: {{ unused: {{ key: ip, limit: 1/day }} }}\n");
    fs::write(directory.path().join("own.yaml"), warned).expect("a file");
    for colours in ["NO_COLOR", "CLICOLOR_FORCE"] {
        // Each write to the socket is a message.
        let (ours, theirs) = UnixDatagram::pair().expect("a pair of sockets");
        let mut check = command(directory.path(), &["check", "own.yaml"]);
        check.env_remove("NO_COLOR").env(colours, "1").stderr(OwnedFd::from(theirs));
        let ended = check.stdout(Stdio::null()).status().expect("the program starts");
        assert!(ended.success());
        drop(check);
        let mut text = [0; 4096];
        let length = ours.recv(&mut text).expect("a warning");
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        assert!(text.contains("warning") && text.contains('^') && text.ends_with('\n'), "{text}");
        assert_eq!(text.contains('\u{1b}'), colours == "CLICOLOR_FORCE", "{text:?}");
    }
}

/// A gateway without a file says what a change needs.
#[test]
fn the_limit_of_a_gateway_without_a_file_cannot_be_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = env!("CARGO_BIN_EXE_tollgate");
    let gateway =
        format!("timeout 10 {program} run --to builtin:echo --limit 5/m --listen 127.0.0.1:0");
    let mut shell = Command::new("script");
    shell.args(["-qefc", &gateway, "out"]).current_dir(directory.path());
    shell.env("NO_COLOR", "1").stdout(Stdio::null());
    let mut shell = shell.spawn().expect("script is installed");
    let read = || fs::read_to_string(directory.path().join("out")).unwrap_or_default();
    eventually("the link is shown", || read().contains("try:"));
    let shown = read();
    let link = shown.split_whitespace().find(|it| it.contains("/#token=")).expect("a link");
    let (url, token) = link.split_once("/#token=").expect("a link");
    let ask = |arguments: &[&str]| {
        let mut command = command(directory.path(), arguments);
        done(command.args(["--admin", url]).env("TOLLGATE_ADMIN_TOKEN", token))
    };
    assert_eq!(ask(&["status"]).code, Some(0), "the token is that of an operator");
    let set = ask(&["policy", "set", "limit", "9/1m"]);
    assert!(set.code == Some(1) && set.stderr.contains("tollgate init"), "{}", set.stderr);
    let reload = ask(&["reload"]);
    assert!(reload.code == Some(1) && reload.stderr.contains("without one"), "{}", reload.stderr);
    shell.kill().expect("it is our child");
    shell.wait().expect("it is our child");
}

const OWN: &str = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                   routes: [{ path: /*, respond: { body: ok } }]\n";

/// What a terminal shows of a gateway that is stopped after two seconds.
fn stopped(directory: &Path, arguments: &str) -> String {
    let program = env!("CARGO_BIN_EXE_tollgate");
    let mut shell = Command::new("script");
    shell.args(["-qec", &format!("timeout 2 {program} {arguments}"), "/dev/null"]);
    shell.current_dir(directory).env("NO_COLOR", "1");
    shell.env_remove("TOLLGATE_LOG").env_remove("TOLLGATE_LOG_FORMAT");
    let output = shell.output().expect("script is installed");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

/// The output of a gateway that is stopped after two seconds.
fn timed(gateway: &mut Command) -> Output {
    let mut timeout = Command::new("timeout");
    timeout.arg("2").arg(gateway.get_program()).args(gateway.get_args());
    done(timeout.env("TOLLGATE_LOG_FORMAT", "text"))
}
