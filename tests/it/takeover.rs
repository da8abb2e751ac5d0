//! One process takes over from another on the same port, under load.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::{Client, Gateway, eventually};

/// Clients that ask without end: half of them on connections that they keep as
/// long as they may, half of them on a new connection for each request.
struct Clients {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..8).map(|number| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            thread::spawn(move || {
                let mut failures = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = ask_until_closed(address, number % 2 == 0, &stop, &answered);
                    failures.extend(asked.err().map(|error| error.to_string()));
                }
                failures
            })
        });
        Self { threads: threads.collect(), stop, answered }
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// What has gone wrong.
    fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let failures = self.threads.into_iter().map(|thread| thread.join().expect("no panic"));
        failures.flatten().collect()
    }
}

fn ask_until_closed(
    address: SocketAddr,
    keeps: bool,
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> io::Result<()> {
    let mut client = Client::try_connect(address)?;
    loop {
        let connection = if keeps { "" } else { "Connection: close\r\n" };
        client.try_send(format!("GET / HTTP/1.1\r\nHost: a\r\n{connection}\r\n").as_bytes())?;
        let response = client.try_response("GET")?;
        let response = response.ok_or_else(|| io::Error::other("closed without an answer"))?;
        if response.status != 200 {
            return Err(io::Error::other(format!("status {}", response.status)));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        let is_last =
            response.field("Connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if is_last || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn gateway_at(address: SocketAddr) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"{address}\" }}]\n\
         routes: [{{ path: /*, respond: {{ body: ok }} }}]\n"
    ))
}

/// A free port at an address of the loopback where no other test looks for one.
fn free_address() -> SocketAddr {
    let [.., one, other] = std::process::id().to_be_bytes();
    let listener =
        TcpListener::bind(SocketAddr::from(([127, 77, one, other], 0))).expect("a free port");
    listener.local_addr().expect("it is bound")
}

#[test]
fn processes_take_over_from_each_other_under_load_without_a_failed_request() {
    let address = free_address();
    let mut running = gateway_at(address);
    let clients = Clients::start(address);
    for _ in 0..4 {
        let mut old = std::mem::replace(&mut running, gateway_at(address));
        let before = clients.answered();
        eventually("clients are served", || clients.answered() > before + 500);
        old.terminate();
        assert_eq!(old.wait().code(), Some(0));
    }
    assert_eq!(clients.stop(), [""; 0]);
}
