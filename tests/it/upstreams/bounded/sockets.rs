//! The connections as the kernel sees them: the sockets of the gateway.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::counting::{Counting, OK};
use super::{TWO_WORKERS, asking, gateway, until_waiting};
use crate::support::{Gateway, PATIENCE, eventually, now};

const MAX: usize = 10;

/// All open sockets of the gateway, by their inodes.
fn sockets(gateway: &Gateway) -> HashSet<u64> {
    let files = fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("it is our child");
    let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    let inode =
        |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    links.filter_map(inode).collect()
}

/// Those to this port. The kernel needs more time for this list.
fn sockets_to(gateway: &Gateway, port: u16) -> HashSet<u64> {
    let table = fs::read_to_string(format!("/proc/{}/net/tcp", gateway.pid()));
    let table = table.expect("it is our child");
    let remote = format!(":{port:04X}");
    let sockets = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = fields.get(9)?.parse().ok()?;
        (fields[2].ends_with(&remote) && inode != 0).then_some(inode)
    });
    sockets.collect()
}

/// The gateway never has more sockets than `max_connections`, however many connections are closed by
/// the backend, and for requests of other workers.
///
/// The kernel lists the sockets one after the other, and some of them are closed and opened meanwhile.
/// So what counts is the sockets in two lists in turn: these were open at the same time.
#[test]
fn the_gateway_never_has_more_sockets() {
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let origin = Counting::start(MAX, Duration::from_millis(5), move |number| match number % 3 {
        0 => closing.to_owned(),
        _ => OK.to_owned(),
    });
    let fields = "max_connections: 10, queue: { length: 1000, timeout: 60s }";
    let gateway = gateway(&origin, fields, TWO_WORKERS);
    let mut clients: Vec<_> = (0..500).map(|_| asking(&gateway, "/", "192.0.2.1")).collect();
    until_waiting(&gateway, 490);
    eventually("all connections are open", || sockets_to(&gateway, origin.port()).len() == MAX);
    let others = &sockets(&gateway) - &sockets_to(&gateway, origin.port());
    let is_done = AtomicBool::new(false);
    let (most, lists) = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = 0;
            let mut lists = 0;
            let mut before = HashSet::new();
            // It also ends if the test fails.
            let end = now() + 4 * PATIENCE;
            while !is_done.load(Ordering::SeqCst) && now() < end {
                let open = &sockets(&gateway) - &others;
                most = most.max(open.intersection(&before).count());
                lists += 1;
                before = open;
            }
            (most, lists)
        });
        origin.open();
        for _ in 0..4 {
            clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
            let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            clients.iter_mut().for_each(|client| client.send(request));
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200));
        is_done.store(true, Ordering::SeqCst);
        watching.join().expect("it does not panic")
    });
    assert!((1..=MAX).contains(&most), "{most} sockets, in {lists} lists");
    assert!(origin.connections() > 100, "{} connections", origin.connections());
    assert!(!origin.is_exceeded());
}
