//! `tollgate reload`: the admin listener answers with the report, or SIGHUP is sent.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use super::{Directory, TOKEN, command, done, run, with_socket, yaml};
use crate::support::{Certificates, Gateway, eventually};

#[test]
fn a_reload_waits_for_the_report_and_prints_it() {
    let (gateway, directory) = with_socket("2/day");
    let file = gateway.file().display().to_string();
    let mut client = gateway.client();
    let mut who = |name: &str| client.get("/", &[&format!("X-Who: {name}")]).status;
    assert_eq!([1, 2, 3].map(|_| who("ann")), [200, 200, 429]);
    gateway.rewrite(&yaml("3/day", &directory.admin()));
    let reloaded = run(directory.path(), &["reload", "-c", &file]);
    assert_eq!(reloaded.code, Some(0), "{}{}", reloaded.stdout, reloaded.stderr);
    assert!(reloaded.stdout.starts_with("reloaded: generation "), "{}", reloaded.stdout);
    assert_eq!([1, 2].map(|_| who("ann")), [200, 429], "it was in force before the report");

    // The section `admin` is read beside the mistake, and the report has its place.
    gateway.rewrite(&yaml("lots", &directory.admin()));
    let refused = run(directory.path(), &["reload", "-c", &file]);
    assert_eq!(refused.code, Some(1), "{}{}", refused.stdout, refused.stderr);
    for part in [&*file, "has mistakes, so the running configuration stays", "line 3, column "] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(refused.stderr.contains("like 1000/minute"), "the correction: {}", refused.stderr);
    assert_eq!([1, 2, 3, 4].map(|_| who("bob")), [200, 200, 200, 429]);
    let told = "not reloaded, the running configuration stays";
    eventually("the log has the refusal", || gateway.log().contains(told));

    // A file that is no YAML cannot name the gateway, and is itself the report.
    gateway.rewrite("admin: [\n");
    let broken = run(directory.path(), &["reload", "-c", &file]);
    assert!(broken.code == Some(1) && broken.stderr.contains("gateway.yaml:"), "{}", broken.stderr);
}

#[test]
fn the_report_has_changes_and_warnings() {
    let directory = Directory::new();
    // A policy that no route uses is a warning.
    let unused = "  spare: { key: ip, limit: 1/day }\nroutes:";
    let file = yaml("2/day", &directory.admin()).replace("routes:", unused);
    let gateway = Gateway::start(&file);
    // A call gives another configuration, so that the file is a change.
    let mut put = Command::new("curl");
    put.args(["-sf", "-X", "PUT", "-H", "If-Match: *", "-H", "Content-Type: application/yaml"]);
    put.args(["--data-binary", "@-", "http://localhost/v1/config", "--unix-socket"]);
    let mut put = put.arg(directory.socket()).stdin(Stdio::piped()).spawn().expect("curl");
    let text = fs::read_to_string(gateway.file()).expect("it is there").replace("2/day", "5/day");
    put.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it is read");
    assert!(put.wait().expect("it is our child").success());
    let back = run(directory.path(), &["reload", "--admin", &directory.url()]);
    assert_eq!(back.code, Some(0), "{}", back.stderr);
    let told = "reloaded: generation 3, 1 change\n  /policies/each/limit: 5/day -> 2/day\nwarning: line 4, ";
    assert!(back.stdout.starts_with(told), "{}", back.stdout);
    let again = run(directory.path(), &["reload", "--admin", &directory.url()]);
    assert!(
        again.stdout.starts_with("reloaded: generation 4, nothing has changed\nwarning: "),
        "{}",
        again.stdout
    );
}

#[test]
fn without_an_admin_listener_the_signal_is_sent_and_said() {
    let gateway = Gateway::start(&yaml("2/day", ""));
    let pid = gateway.pid().to_string();
    let empty = tempfile::tempdir().expect("a directory");
    let socket = format!("unix:{}", empty.path().join("none.sock").display());
    // The variable is what a unit file sets.
    let mut by_signal = command(empty.path(), &["reload", "--pid", &pid]);
    let sent = done(by_signal.env("TOLLGATE_ADMIN", &socket));
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let said = format!("sent SIGHUP to the process {pid}, whose log tells the result: {socket}");
    assert!(sent.stdout.starts_with(&said), "{}", sent.stdout);
    eventually("it reloads", || gateway.log().contains(" reloaded file="));
    // A listener that was named on the command line is the one that is meant.
    let named = run(empty.path(), &["reload", "--pid", &pid, "--admin", &socket]);
    assert!(named.code == Some(1) && named.stderr.contains("cannot connect"), "{}", named.stderr);
    let mut no_process = command(empty.path(), &["reload"]);
    let without = done(no_process.env("TOLLGATE_ADMIN", &socket));
    assert!(without.code == Some(1) && without.stderr.contains("--pid"), "{}", without.stderr);
}

#[test]
fn the_signal_goes_to_no_other_process() {
    let (gateway, directory) = with_socket("2/day");
    let other = Gateway::start(&yaml("2/day", ""));
    // The socket is that of another gateway.
    let mut reload = command(directory.path(), &["reload", "--pid", &other.pid().to_string()]);
    let sent = done(reload.env("TOLLGATE_ADMIN", directory.url()));
    let owner = format!("is the socket of the process {}", gateway.pid());
    assert!(sent.code == Some(0) && sent.stdout.contains(&owner), "{}{}", sent.stdout, sent.stderr);
    eventually("it reloads", || other.log().contains(" reloaded file="));
    assert!(!gateway.log().contains(" reloaded file="), "{}", gateway.log());
    // The socket of the process itself is asked.
    let mut reload = command(directory.path(), &["reload", "--pid", &gateway.pid().to_string()]);
    let asked = done(reload.env("TOLLGATE_ADMIN", directory.url()));
    assert!(asked.stdout.starts_with("reloaded: "), "{}{}", asked.stdout, asked.stderr);
    // A process without a handler would end by the signal.
    let mut sleep = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("it runs");
    let mut reload = command(directory.path(), &["reload", "--pid", &sleep.id().to_string()]);
    let refused = done(reload.env("TOLLGATE_ADMIN", "unix:/nowhere/admin.sock"));
    assert!(refused.code == Some(1), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("is not a running gateway"), "{}", refused.stderr);
    assert!(sleep.try_wait().expect("it is our child").is_none(), "it goes on");
    sleep.kill().expect("it is our child");
    sleep.wait().expect("it is our child");
}

#[test]
fn the_token_is_that_of_the_file_the_variable_or_the_argument() {
    let admin = format!("admin: {{ address: \"127.0.0.1:0\", token: {TOKEN} }}");
    let gateway = Gateway::start(&yaml("2/day", &admin));
    let address = gateway.addresses()[1];
    // The port is free, so a file for the commands has the one that was taken.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    fs::write(&file, yaml("2/day", &admin.replace("127.0.0.1:0", &address.to_string())))
        .expect("a file");
    let by_file = run(directory.path(), &["reload"]);
    assert_eq!(by_file.code, Some(0), "{}", by_file.stderr);
    // A token of the default file is not sent to a listener that an argument names.
    let url = format!("http://{address}");
    let without = run(directory.path(), &["reload", "--admin", &url]);
    assert_eq!(without.code, Some(2));
    assert!(without.stderr.contains("set TOLLGATE_ADMIN_TOKEN"), "{}", without.stderr);
    assert!(!without.stderr.contains(TOKEN));
    let mut variable = command(directory.path(), &["reload", "--admin", &url]);
    assert_eq!(done(variable.env("TOLLGATE_ADMIN_TOKEN", TOKEN)).code, Some(0));
    let token = directory.path().join("token");
    fs::write(&token, format!("{TOKEN}\n")).expect("a file");
    let token = token.display().to_string();
    let named = run(directory.path(), &["reload", "--admin", &url, "--token-file", &token]);
    assert_eq!(named.code, Some(0), "{}", named.stderr);
}

/// Regression: in TLS 1.3 a server refuses a client without a certificate after the handshake, and
/// commands said "connection error". `reload --pid` then sent no signal.
#[test]
fn a_listener_that_demands_a_certificate_is_asked_with_one_or_gets_the_signal() {
    let made = Certificates::temporary("127.0.0.1");
    let admin = format!(
        "admin: {{ address: \"127.0.0.1:0\", clients: [{{ subject: \"CN=client\", role: operate }}], \
         tls: {{ certificates: [{{ cert: {:?}, key: {:?} }}], client_ca: {:?} }} }}",
        made.server(),
        made.server_key(),
        made.ca()
    );
    let gateway = Gateway::start(&yaml("2/day", &admin));
    let url = format!("https://{}", gateway.addresses()[1]);
    let pid = gateway.pid().to_string();
    let empty = tempfile::tempdir().expect("a directory");
    let [ca, cert, key] =
        [made.ca(), made.client(), made.client_key()].map(|file| file.display().to_string());
    let with = |arguments: &[&str]| {
        let mut command = command(empty.path(), arguments);
        done(command.args(["--cacert", &ca]).env("TOLLGATE_ADMIN", &url))
    };
    for arguments in [&["status"][..], &["reload"], &["health"]] {
        let without = with(arguments);
        let code = if arguments[0] == "health" { 1 } else { 2 };
        assert_eq!(without.code, Some(code), "{arguments:?}: {}", without.stderr);
        let told = "the listener demands the certificate of a client";
        assert!(without.stderr.contains(told), "{arguments:?}: {}", without.stderr);
    }
    let sent = with(&["reload", "--pid", &pid]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(
        sent.stdout.starts_with(&format!("sent SIGHUP to the process {pid}")),
        "{}",
        sent.stdout
    );
    eventually("it reloads", || gateway.log().contains(" reloaded file="));
    for command in ["status", "health", "reload"] {
        let asked = with(&[command, "--cert", &cert, "--key", &key]);
        assert_eq!(asked.code, Some(0), "{command}: {}{}", asked.stdout, asked.stderr);
    }
    let alone = with(&["status", "--cert", &cert]);
    assert!(alone.code == Some(2) && alone.stderr.contains("--key"), "{}", alone.stderr);
}

#[test]
fn variables_that_are_not_text_are_refused() {
    let (_gateway, directory) = with_socket("2/day");
    let bytes = OsStr::from_bytes(b"unix:/srv/\xffgw.sock");
    for variable in ["TOLLGATE_ADMIN", "TOLLGATE_ADMIN_TOKEN"] {
        let mut status = command(directory.path(), &["status"]);
        let refused = done(status.env("TOLLGATE_ADMIN", directory.url()).env(variable, bytes));
        assert_eq!(refused.code, Some(2), "{variable}: {}", refused.stderr);
        let told = format!("the variable {variable} is not UTF-8");
        assert!(refused.stderr.contains(&told), "{variable}: {}", refused.stderr);
    }
}

#[test]
fn a_gateway_without_a_file_says_so() {
    let gateway =
        Gateway::start_with(&["--to", "builtin:echo", "--limit", "5/m", "--listen", "127.0.0.1:0"]);
    let mut reload = command(tempfile::tempdir().expect("a directory").path(), &["reload"]);
    reload.current_dir("/").args(["--pid", &gateway.pid().to_string()]);
    let sent = done(reload.env("TOLLGATE_ADMIN", "unix:/nowhere/admin.sock"));
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    eventually("it is told", || gateway.log().contains("there is no file to reload"));
}
