//! Connections that ask for nothing keep no client out of the listeners for operators, for health
//! checks and for questions of other proxies.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::{OPERATE, READ, gateway};
use crate::support::{Client, Gateway, as_root, eventually};

/// The most connections of the admin listener.
const MOST: usize = 64;

fn silent(address: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::connect(address)).collect()
}

fn status(client: &mut Client, path: &str, fields: &[&str]) -> u16 {
    client.get(path, fields).status
}

#[test]
fn the_connection_that_has_waited_longest_goes_when_the_listener_is_full() {
    let gateway = gateway("", "hosts: [gateway.test]");
    let admin = gateway.addresses()[1];
    let mut idle = Vec::new();
    for _ in 0..MOST {
        let mut client = Client::connect(admin);
        assert_eq!(status(&mut client, "/healthz", &[]), 200);
        idle.push(client);
    }
    // The first one has waited longest, until it asks again.
    assert_eq!(status(&mut idle[0], "/healthz", &[]), 200);
    let token = format!("Authorization: Bearer {READ}");
    let mut operator = Client::connect(admin);
    assert_eq!(status(&mut operator, "/v1/status", &[&token]), 200);
    assert!(idle[1].is_closed(), "the second one goes");
    for (number, client) in idle.iter_mut().enumerate().filter(|(number, _)| *number != 1) {
        assert_eq!(status(client, "/healthz", &[]), 200, "{number}");
    }
}

#[test]
fn silent_connections_keep_no_client_out() {
    let gateway = gateway("", "probe: { address: \"127.0.0.1:0\" }, hosts: [gateway.test]");
    for (number, address) in gateway.addresses()[1..3].iter().enumerate() {
        let mut crowd = silent(*address, MOST);
        for _ in 0..10 {
            assert_eq!(status(&mut Client::connect(*address), "/healthz", &[]), 200, "{number}");
        }
        // A client that speaks HTTP/2 and reads nothing of the response is no better.
        let prefaces = crowd.iter_mut().map(|client| {
            client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        });
        prefaces.for_each(drop);
        assert_eq!(status(&mut Client::connect(*address), "/healthz", &[]), 200, "{number}");
    }
}

/// A call that has begun is not cut off: a stream of events stays open.
#[test]
fn a_connection_with_a_request_stays_when_the_listener_is_full() {
    let gateway = gateway("", "hosts: [gateway.test]");
    let admin = gateway.addresses()[1];
    let mut stream = Client::connect(admin);
    let head = format!(
        "GET /v1/events?topics=summary HTTP/1.1\r\nHost: {admin}\r\n\
         Authorization: Bearer {OPERATE}\r\n\r\n"
    );
    stream.send(head.as_bytes());
    assert_eq!(stream.head().status, 200);
    let _crowd = silent(admin, 3 * MOST);
    assert_eq!(status(&mut Client::connect(admin), "/healthz", &[]), 200);
    for _ in 0..2 {
        assert!(stream.chunk().expect("it stays open").is_some());
    }
}

#[test]
fn idle_connections_keep_no_proxy_out_of_the_check_listener() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { each: { key: ip, limit: 100/day } }\n\
         routes: [{ path: \"/*\", policies: [each], respond: { body: ok } }]\n\
         check: { http: { address: \"127.0.0.1:0\" } }\n",
    );
    let check = gateway.addresses()[1];
    let _crowd = silent(check, 2048);
    let body = br#"{"policy":"each","key":"192.0.2.1"}"#;
    let fields = ["Content-Type: application/json"];
    let answer = Client::connect(check).request("POST", "/v1/check", &fields, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Every process may connect to the socket if `uids` are named, and the ones of other users are
/// told apart when they do.
#[test]
fn a_user_that_may_not_use_the_socket_keeps_no_other_user_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("it is ours");
    let socket = directory.path().join("admin.sock");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"unix:{}\", uids: [65533] }}\n",
        socket.display()
    ));
    let asks = |uid: &str| {
        let mut curl = as_root("setpriv");
        curl.args(["--reuid", uid, "--clear-groups", "curl", "-s", "-m", "10", "--unix-socket"]);
        let output = curl.arg(&socket).arg("http://localhost/v1/status").output();
        let output = output.expect("curl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a text")
    };
    assert!(asks("65533").contains("\"state\""));
    assert!(asks("65534").contains("the user 65534 may not use this socket"));
    let script = "use Socket; for (1..200) { socket(my $s, PF_UNIX, SOCK_STREAM, 0); \
                  connect($s, pack_sockaddr_un($ARGV[0])) or die; push @s, $s; } \
                  $| = 1; print \"connected\\n\"; <STDIN>;";
    let mut crowd = as_root("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "perl", "-e", script])
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("perl is installed");
    let mut said = [0; 9];
    std::io::Read::read_exact(crowd.stdout.as_mut().expect("it was piped"), &mut said)
        .expect("it has connected");
    let own = rustix::process::geteuid().as_raw().to_string();
    for uid in [&*own, "65533"] {
        assert!(asks(uid).contains("\"state\""), "{uid}");
    }
    eventually("the log says so", || gateway.log().contains("client=\"uid 65534\""));
    drop(crowd.stdin.take());
    crowd.wait().expect("it is our child");
}
