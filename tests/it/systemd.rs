//! As a service manager starts it: with sockets that it has opened, and told of
//! every step.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Client, PATIENCE, Program, eventually, signal};

/// A gateway with this file, which has inherited the socket as its third
/// descriptor, as systemd passes sockets on.
fn start(file: &Path, socket: &TcpListener, notify: &Path) -> Child {
    let program = Program::command();
    let socket = socket.try_clone().expect("a second handle");
    let mut command = Command::new("sh");
    // What is the shell's input becomes the descriptor 3 of the program.
    command.args(["-c", "exec \"$0\" run -c \"$1\" 3<&0"]).arg(program.get_program()).arg(file);
    command.env("LISTEN_FDS", "1").env("NOTIFY_SOCKET", notify);
    command.stdin(Stdio::from(OwnedFd::from(socket))).stderr(Stdio::null());
    command.spawn().expect("there is a shell")
}

/// The next thing that the service manager is told.
fn told(notify: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let length = notify.recv(&mut buffer).expect("it is told in time");
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
fn a_service_is_restarted_and_reloaded_without_a_refused_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let notify = UnixDatagram::bind(at("notify")).expect("a socket");
    notify.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let write = |text| std::fs::write(at("gateway.yaml"), saying(address, text)).expect("a file");
    write("first");

    // Whoever comes before the service has started waits for it.
    let mut early = Client::connect(address);
    early.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut process = start(&at("gateway.yaml"), &socket, &at("notify"));
    assert_eq!(told(&notify), "READY=1\n");
    assert_eq!(early.response("GET").text(), "first");

    write("second");
    signal(&process, "HUP");
    let reloading = told(&notify);
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").map(str::trim_end);
    assert!(time.is_some_and(|time| time.parse::<u64>().is_ok()), "{reloading}");
    assert_eq!(told(&notify), "READY=1\n");
    assert_eq!(Client::connect(address).get("/", &[]).text(), "second");

    signal(&process, "TERM");
    // The change of the file may have been seen besides the signal.
    eventually("it says that it stops", || told(&notify) == "STOPPING=1\n");
    assert!(process.wait().expect("it is our child").success());

    let mut between = Client::connect(address);
    between.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut process = start(&at("gateway.yaml"), &socket, &at("notify"));
    assert_eq!(between.response("GET").text(), "second");
    process.kill().expect("it is our child");
    process.wait().expect("it is our child");
}
