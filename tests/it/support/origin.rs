//! An origin: a backend that records requests and responds as a test says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::response::read_chunk;

/// A request as an origin has received it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Request line and fields, as they were received.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// All values of the fields with this name, in any case.
    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

/// A backend on a free port. Its threads end when their connections do.
pub(crate) struct Origin {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
}

impl Origin {
    /// Responds to each request with the bytes that `answer` returns, and keeps the
    /// connection.
    pub(crate) fn answering(answer: impl Fn(&Received) -> String + Send + Sync + 'static) -> Self {
        Self::serving(move |stream, read| {
            while let Some(request) = read() {
                if stream.write_all(answer(&request).as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    /// Responds to every request with 200 and `hello`.
    pub(crate) fn hello() -> Self {
        Self::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned())
    }

    /// Passes each connection to `serve`, with a function that reads and records the next
    /// whole request. The connection is closed when `serve` returns.
    pub(crate) fn serving(
        serve: impl Fn(&mut TcpStream, &mut dyn FnMut() -> Option<Received>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let log = Arc::clone(&received);
        let count = Arc::clone(&connections);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let log = Arc::clone(&log);
                let serve = Arc::clone(&serve);
                thread::spawn(move || {
                    let mut writer = stream.try_clone().expect("a second handle");
                    let mut reader = BufReader::new(stream);
                    serve(&mut writer, &mut || {
                        let request = read_request(&mut reader)?;
                        log.lock().expect("no thread panics with it").push(request.clone());
                        Some(request)
                    });
                    let _ = writer.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { address, received, connections }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no thread panics with it").clone()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The next whole request, or none at the end of the connection.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut request = Received { head: String::new(), body: Vec::new() };
    while !request.head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut request.head).ok()? == 0 {
            return None;
        }
    }
    if let Some(length) = request.fields("content-length").first() {
        let length = length.parse().expect("a length is a number");
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).ok()?;
    } else if request.fields("transfer-encoding") == ["chunked"] {
        while let Some(chunk) = read_chunk(stream).ok()? {
            request.body.extend(chunk);
        }
    }
    Some(request)
}
