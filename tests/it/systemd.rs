//! The gateway under a service manager, which opens its sockets and receives its state.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Client, PATIENCE, Program, eventually, signal};

/// A gateway with this file and an inherited socket as descriptor 3, as systemd passes
/// sockets.
fn start(file: &Path, socket: &TcpListener, notify: &Path) -> Child {
    let socket = socket.try_clone().expect("a second handle");
    // The input of the shell becomes descriptor 3 of the program.
    let mut command = Program::by_shell("exec \"$0\" run -c \"$1\" 3<&0");
    command.arg(file).env("LISTEN_FDS", "1").env("NOTIFY_SOCKET", notify);
    command.stdin(Stdio::from(OwnedFd::from(socket))).stderr(Stdio::null());
    command.spawn().expect("there is a shell")
}

/// The next report to the service manager.
fn reported(notify: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let length = notify.recv(&mut buffer).expect("a report arrives in time");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

fn saying(address: SocketAddr, text: &str) -> String {
    format!(
        "listeners: [{{ address: \"{address}\" }}]\n\
         routes: [{{ path: /*, respond: {{ body: {text} }} }}]\n\
         telemetry: {{ access_log: false }}\n"
    )
}

#[test]
fn a_service_restarts_and_reloads_without_refusing_a_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let notify = UnixDatagram::bind(at("notify")).expect("a socket");
    notify.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let write = |text| std::fs::write(at("gateway.yaml"), saying(address, text)).expect("a file");
    write("first");

    // A client that connects before the start waits.
    let mut early = Client::connect(address);
    early.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut process = start(&at("gateway.yaml"), &socket, &at("notify"));
    assert_eq!(reported(&notify), "READY=1\n");
    assert_eq!(early.response("GET").text(), "first");

    write("second");
    signal(&process, "HUP");
    let reloading = reported(&notify);
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").map(str::trim_end);
    assert!(time.is_some_and(|time| time.parse::<u64>().is_ok()), "{reloading}");
    assert_eq!(reported(&notify), "READY=1\n");
    assert_eq!(Client::connect(address).get("/", &[]).text(), "second");

    signal(&process, "TERM");
    // The change of the file may have caused another reload.
    eventually("it reports that it stops", || reported(&notify) == "STOPPING=1\n");
    assert!(process.wait().expect("it is our child").success());

    let mut between = Client::connect(address);
    between.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut process = start(&at("gateway.yaml"), &socket, &at("notify"));
    assert_eq!(between.response("GET").text(), "second");
    process.kill().expect("it is our child");
    process.wait().expect("it is our child");
}

/// The units, as they are shipped.
fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd")
}

/// systemd 252 (Debian 12) ignored `Type=notify-reload` and considered the service ready at once.
#[test]
fn systemd_understands_every_line_of_the_units() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["tollgate.service", "tollgate.socket"] {
        let unit = std::fs::read_to_string(units().join(name)).expect("it is shipped");
        // Where this test has the program.
        let unit = unit.replace("/usr/bin/tollgate", env!("CARGO_BIN_EXE_tollgate"));
        std::fs::write(directory.path().join(name), unit).expect("a file");
    }
    let mut verify = Command::new("systemd-analyze");
    // The manual is not installed here.
    verify.args(["verify", "--man=no", "tollgate.service", "tollgate.socket"]);
    let output = verify.current_dir(directory.path()).output();
    let output = output.expect("scripts/test installs the package systemd");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// The examples in the documents can be used under the unit: it creates their directories.
#[test]
fn the_unit_has_the_directories_that_documents_name() {
    let unit = std::fs::read_to_string(units().join("tollgate.service")).expect("it is shipped");
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = std::fs::read_dir(project.join("docs")).expect("it is part of the project");
    let pages = pages.map(|page| page.expect("the directory can be read").path());
    let mut text = std::fs::read_to_string(project.join("README.md")).expect("a page");
    for page in pages.filter(|page| page.extension().is_some_and(|it| it == "md")) {
        text.push_str(&std::fs::read_to_string(page).expect("a page"));
    }
    for (directory, line) in [
        ("/run/tollgate/", "RuntimeDirectory=tollgate"),
        ("/var/log/tollgate/", "LogsDirectory=tollgate"),
    ] {
        assert!(text.contains(directory), "no document names {directory}");
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
}
