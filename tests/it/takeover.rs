//! One process takes over from another on the same port, under load.

use std::cell::Cell;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::task::spawn_local;

use crate::support::http::{Http, block_on, soon};
use crate::support::{Certificates, Client, Gateway, Origin, TlsClient, eventually, reserved};

/// What the certificate is for.
const NAME: &str = "gateway.test";

/// Clients that send requests without pause: half of them keep their connections as long
/// as possible, the other half open a connection for each request.
struct Clients {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicUsize::new(0));
        let threads = (0..8).map(|number| {
            let stop = Arc::clone(&stop);
            let answered = Arc::clone(&answered);
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

    /// Stops the clients, and returns their errors.
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
    gateway_with(address, "")
}

/// A gateway with a further field of its listener.
fn gateway_with(address: SocketAddr, field: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"{address}\", {field} }}]\n\
         routes: [{{ path: /*, respond: {{ body: ok }} }}]\n"
    ))
}

/// A free port at a loopback address that no other test uses.
fn free_address() -> SocketAddr {
    let [.., one, other] = std::process::id().to_be_bytes();
    let socket = reserved::bound_to(SocketAddr::from(([127, 77, one, other], 0)));
    let address = socket.expect("a free port").local_addr().expect("it is bound");
    address.as_socket().expect("an address of the Internet")
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

/// The old process has an accepted connection that waits for its permit.
#[test]
fn a_process_that_stops_accepts_nothing_new_while_a_connection_waits_for_its_place() {
    let address = free_address();
    let (release, may_answer) = mpsc::channel::<()>();
    let may_answer = Mutex::new(may_answer);
    let origin = Origin::serving(move |stream, read| {
        read();
        let _ = may_answer.lock().expect("no thread panics with it").recv();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
    });
    let old = Gateway::start(&format!(
        "listeners: [{{ address: \"{address}\", max_connections: 1 }}]\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         routes: [{{ path: /*, upstream: app }}]\nruntime: {{ workers: 1 }}\n",
        origin.address()
    ));
    let mut busy = Client::connect(address);
    busy.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    eventually("it is busy", || origin.received().len() == 1);
    let _waiting = Client::connect(address);
    // Until it is accepted.
    thread::sleep(Duration::from_millis(100));
    let _new = gateway_at(address);
    old.terminate();
    // Until the handshakes are complete that had begun.
    thread::sleep(Duration::from_millis(500));
    for _ in 0..20 {
        let mut client = Client::connect(address);
        assert_eq!(client.get("/", &["Connection: close"]).text(), "ok");
    }
    drop(release);
    assert_eq!(busy.response("GET").text(), "old");
}

/// A gateway with an admin listener at another address.
fn gateway_with_status(address: SocketAddr) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"{address}\" }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, \
             token: read-0123456789abcdef }}], hosts: [gateway.test] }}\n\
         routes: [{{ path: /*, respond: {{ body: ok }} }}]\n"
    ))
}

/// The text of the reason for a shared port, and whether the metric counts one process. A credential
/// has 50 calls a second.
fn shared(gateway: &Gateway) -> (Option<String>, bool) {
    thread::sleep(Duration::from_millis(100));
    let token = "Authorization: Bearer read-0123456789abcdef";
    let mut client = Client::connect(gateway.addresses()[1]);
    let status = client.get("/v1/status", &[token]).json();
    let reasons = status["reasons"].as_array().expect("a list");
    let text = reasons.iter().find(|it| it["code"] == "port_shared");
    let text = text.and_then(|it| it["text"].as_str()).map(str::to_owned);
    let metrics = client.get("/metrics", &[token]).text();
    let line = format!("tollgate_other_listeners{{listener=\"{}\"}} 1\n", gateway.address());
    (text, metrics.contains(&line))
}

#[test]
fn a_second_process_on_the_same_port_is_named_while_it_lasts() {
    let address = free_address();
    let first = gateway_with_status(address);
    let mut second = gateway_with_status(address);
    for (one, other) in [(&first, &second), (&second, &first)] {
        let named = format!(
            "another process listens on {address}: pid {} (tollgate), since 20",
            other.pid()
        );
        eventually("the other process is named", || {
            let (text, is_measured) = shared(one);
            text.is_some_and(|it| it.starts_with(&named) && it.ends_with("connections go to both"))
                && is_measured
        });
        assert_eq!(one.log().matches(&named).count(), 1, "{}", one.log());
        assert!(one.log().contains("expected while one process takes over from the other"));
    }
    second.terminate();
    assert_eq!(second.wait().code(), Some(0));
    eventually("the other process has ended", || shared(&first) == (None, false));
    assert!(first.log().contains(&format!("ended: another process listens on {address}")));
}

/// The listeners for operators are looked at, too.
#[test]
fn a_second_process_on_the_admin_port_is_named() {
    let address = free_address();
    let yaml = |port: u16| {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             admin: {{ address: \"{address}\", tokens: [{{ name: a, role: read, \
                 token: read-0123456789abcdef }}], probe: {{ address: \"127.0.0.1:{port}\" }} }}\n\
             routes: [{{ path: /*, respond: {{ body: ok }} }}]\n"
        )
    };
    let first = Gateway::start(&yaml(0));
    let second = Gateway::start(&yaml(0));
    let named = format!("another process listens on {address}: pid {} (tollgate)", first.pid());
    eventually("the other process is named", || second.log().contains(&named));
}

/// Opens connections without pause, sends one request on each, and counts the responses.
async fn ask_on_new_connections(
    client: TlsClient,
    address: SocketAddr,
    protocol: &str,
    answered: &Cell<usize>,
) {
    loop {
        let stream = client.connect(address, NAME).await.expect("a handshake");
        let http = match protocol {
            "h2" => Http::http2(stream).await,
            _ => Http::http1(stream).await,
        };
        let answer = http.expect("a new connection").get("/").await;
        assert_eq!(answer.status, 200, "{protocol}");
        answered.set(answered.get() + 1);
    }
}

/// TLS clients notice no change, although the next process does not know their sessions.
#[test]
fn processes_with_tls_take_over_from_each_other() {
    let made = Certificates::temporary(NAME);
    let certificate = made.server();
    let key = made.server_key();
    let tls = format!("tls: {{ certificates: [{{ cert: {certificate:?}, key: {key:?} }}] }}");
    let address = free_address();
    let mut running = gateway_with(address, &tls);
    block_on(async {
        let counts: Rc<[Cell<usize>; 2]> = Rc::default();
        let clients = ["http/1.1", "h2"].into_iter().enumerate().map(|(index, protocol)| {
            let client = TlsClient::offering(&made, &[protocol]);
            let counts = Rc::clone(&counts);
            spawn_local(async move {
                ask_on_new_connections(client, address, protocol, &counts[index]).await;
            })
        });
        let clients: Vec<_> = clients.collect();
        for _ in 0..3 {
            let old = std::mem::replace(&mut running, gateway_with(address, &tls));
            for is_over in [false, true] {
                if is_over {
                    old.terminate();
                }
                let before = counts.each_ref().map(Cell::get);
                soon("clients of both protocols are served", || {
                    assert!(clients.iter().all(|client| !client.is_finished()), "one has failed");
                    counts.iter().zip(before).all(|(now, before)| now.get() > before + 30)
                })
                .await;
            }
        }
    });
}
