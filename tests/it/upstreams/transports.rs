//! Endpoints without an IP address: a name or a Unix socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use super::gateway;
use crate::support::{Gateway, Origin};

#[test]
fn an_endpoint_may_be_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, heads) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut writer = stream.try_clone().unwrap();
            let mut head = String::new();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let is_end = line.is_empty();
                head.push_str(&line);
                head.push('\n');
                if is_end {
                    let _ = sender.send(std::mem::take(&mut head));
                    let _ = writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                }
            }
        }
    });
    let gateway = gateway(&[format!("unix:{}", path.display())], "", "");
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/a?b", &[]).text(), "hello");
        let head = heads.recv().unwrap();
        assert!(head.starts_with("GET /a?b HTTP/1.1\nhost: gateway.test\n"), "{head}");
    }
}

#[test]
fn a_name_without_an_address_delays_nothing_else() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams:\n  lost: {{ endpoints: [\"http://nowhere.invalid:80\"] }}\n  \
           half: {{ endpoints: [\"http://nowhere.invalid:80\", \"http://localhost:{}\"] }}\n\
         routes: [{{ path: /lost, upstream: lost }}, {{ path: /half, upstream: half }}]\n",
        origin.address().port()
    ));
    let mut client = gateway.client();
    let lost = client.get("/lost", &[]);
    assert_eq!((lost.status, lost.json()["source"].as_str()), (502, Some("upstream")));
    assert_eq!(lost.json()["detail"], "the upstream's address is not known");
    for _ in 0..5 {
        assert_eq!(client.get("/half", &[]).status, 200);
    }
    assert!(gateway.log().contains("cannot be looked up"), "{}", gateway.log());
}

/// A backend moves: its name gets another address, and nothing listens at the old one. Without a
/// lookup after a failed connect, all requests of ten seconds would fail.
#[test]
fn a_name_with_a_new_address_is_looked_up_after_a_failed_connect() {
    let origin = Origin::hello();
    let gateway = Gateway::start_with_hosts(
        &format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://moving.test:{}\"] }} }}\n\
             routes: [{{ path: \"/*\", upstream: app }}]\n",
            origin.address().port()
        ),
        "127.0.0.2 moving.test",
    );
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 502);
    gateway.set_hosts("127.0.0.1 moving.test\n");
    let status = |_| {
        thread::sleep(Duration::from_millis(200));
        client.get("/", &[]).status
    };
    let failed = (0..50).map(status).take_while(|status| *status == 502).count();
    assert!(failed < 15, "{failed} requests have failed");
    assert_eq!(client.get("/", &[]).text(), "hello");
}
