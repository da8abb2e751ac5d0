//! `Expect: 100-continue`: the backend decides whether the client sends its body (RFC
//! 9110, section 10.1.1).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{Backend, Client, Gateway, Origin, Speaks};

const HEAD: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A backend that sees heads before it reads bodies.
struct Careful {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

/// A connection of the backend on which a head has arrived.
struct Incoming<'c> {
    stream: &'c mut BufReader<TcpStream>,
    head: String,
    /// The number of the head.
    number: usize,
}

impl Incoming<'_> {
    fn write(&mut self, bytes: &[u8]) {
        // If the gateway has closed the connection, its client notices.
        let _ = self.stream.get_mut().write_all(bytes);
    }

    fn read_five(&mut self) -> [u8; 5] {
        let mut body = [0; 5];
        self.stream.read_exact(&mut body).expect("the body comes");
        body
    }

    fn expects(&self) -> bool {
        self.head.to_lowercase().contains("\r\nexpect: 100-continue\r\n")
    }
}

impl Careful {
    /// Passes each head to `serve`, which returns whether the connection is kept.
    fn serving(serve: impl Fn(&mut Incoming<'_>) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                let serve = Arc::clone(&serve);
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(head) = read_head(&mut stream) {
                        let number = {
                            let mut seen = seen.lock().expect("no thread panics with it");
                            seen.push(head.clone());
                            seen.len()
                        };
                        let mut incoming = Incoming { stream: &mut stream, head, number };
                        if !serve(&mut incoming) {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no thread panics with it").clone()
    }

    fn gateway(&self, route: &str) -> Gateway {
        Gateway::start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
             routes: [{{ path: \"/*\", upstream: app, {route} }}]\n",
            self.address
        ))
    }
}

fn read_head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Sends a head with an expectation, sends the body after a 100, and returns the status of
/// the response.
fn post(client: &mut Client) -> u16 {
    client.send(HEAD.as_bytes());
    assert_eq!(client.head().status, 100);
    client.send(b"hello");
    client.response("POST").status
}

#[test]
fn a_backend_that_refuses_gets_no_body_and_its_client_gets_no_100() {
    for refusal in ["401 Unauthorized", "417 Expectation Failed"] {
        let rest = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&rest);
        let backend = Careful::serving(move |incoming| {
            assert!(incoming.expects(), "{}", incoming.head);
            let answer = format!("HTTP/1.1 {refusal}\r\nContent-Length: 2\r\n\r\nno");
            incoming.write(answer.as_bytes());
            let mut bytes = Vec::new();
            let _ = incoming.stream.read_to_end(&mut bytes);
            *seen.lock().expect("no thread panics with it") = Some(bytes);
            false
        });
        let gateway = backend.gateway("");
        let mut client = gateway.client();
        client.send(HEAD.as_bytes());
        let answer = client.response("POST");
        assert_eq!(answer.status.to_string(), refusal[..3]);
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(client.is_closed());
        let is_over = || rest.lock().expect("no thread panics with it").is_some();
        crate::support::eventually("its connection is closed", is_over);
        assert_eq!(rest.lock().expect("no thread panics with it").as_deref(), Some(&b""[..]));
    }
}

#[test]
fn a_client_gets_a_100_when_the_backend_sends_one() {
    let is_asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_asked);
    let backend = Careful::serving(move |incoming| {
        // Long before the timeout after which a 100 is sent in any case.
        thread::sleep(Duration::from_millis(300));
        assert!(!seen.load(Ordering::SeqCst), "the gateway asks by itself");
        incoming.write(CONTINUE);
        assert_eq!(&incoming.read_five(), b"hello");
        incoming.write(OK);
        true
    });
    let gateway = backend.gateway("");
    let mut client = gateway.client();
    for _ in 0..2 {
        is_asked.store(false, Ordering::SeqCst);
        client.send(HEAD.as_bytes());
        assert_eq!(client.head().status, 100);
        is_asked.store(true, Ordering::SeqCst);
        client.send(b"hello");
        let answer = client.response("POST");
        assert_eq!((answer.status, answer.field("connection")), (200, None));
    }
}

#[test]
fn a_backend_without_expectations_gets_the_body_after_a_timeout() {
    let origin = Origin::hello();
    // The response timeout begins when the request has been sent.
    let gateway = Gateway::forwarding(&origin, "timeouts: { response: 500ms }", "", "");
    let mut client = gateway.client();
    assert_eq!(post(&mut client), 200);
    assert_eq!(origin.received()[0].body, b"hello");
    assert_eq!(origin.received()[0].fields("expect"), ["100-continue"]);
}

#[test]
fn a_request_whose_body_was_not_begun_is_sent_again_when_an_idle_connection_has_closed() {
    let backend = Careful::serving(|incoming| match (incoming.number, incoming.expects()) {
        (_, false) => {
            incoming.write(OK);
            true
        }
        // On the idle connection.
        (2, true) => false,
        _ => {
            incoming.write(CONTINUE);
            assert_eq!(&incoming.read_five(), b"hello");
            incoming.write(OK);
            true
        }
    });
    let gateway = backend.gateway("");
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(post(&mut client), 200);
    assert_eq!(backend.heads().len(), 3);
}

#[test]
fn a_request_that_is_sent_again_expects_again() {
    let backend = Careful::serving(|incoming| {
        assert!(incoming.expects(), "{}", incoming.head);
        if incoming.number == 1 {
            incoming.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
            return false;
        }
        incoming.write(CONTINUE);
        assert_eq!(&incoming.read_five(), b"hello");
        incoming.write(OK);
        true
    });
    let gateway = backend.gateway("retries: { on: [503], methods: [POST] }");
    assert_eq!(post(&mut gateway.client()), 200);
    assert_eq!(backend.heads().len(), 2);
}

#[test]
fn a_client_of_http_1_0_has_no_expectations() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(HEAD.replace("HTTP/1.1", "HTTP/1.0").as_bytes());
    client.send(b"hello");
    assert_eq!(client.response("POST").status, 200);
    assert!(origin.received()[0].fields("expect").is_empty());
}

/// The library does not report a 100 that comes over HTTP/2, so the client gets a 100 as
/// soon as the request has been sent.
#[test]
fn over_http_2_the_client_gets_a_100_when_the_request_is_sent() {
    let backend = Backend::start(Speaks::Http2 { max_streams: 100 });
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"h2c://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n",
        backend.address()
    ));
    assert_eq!(post(&mut gateway.client()), 200);
    let seen = backend.seen();
    assert_eq!((&seen[0].body[..], seen[0].headers.get("expect")), (&b"hello"[..], None));
}
