//! A backend that records every byte and reads it strictly.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::strict;

/// The bytes of all connections so far.
#[derive(Default)]
struct Record {
    /// Complete requests, as summarized by [`strict::read`].
    arrived: Vec<strict::Summary>,
    /// Bytes that are not a valid request.
    faults: Vec<String>,
}

/// A backend on a free port, which responds to each request with 200.
pub(super) struct Backend {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
}

impl Backend {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let record = Arc::<Mutex<Record>>::default();
        let shared = Arc::clone(&record);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let record = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &record));
            }
        });
        Self { address, record }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The complete requests since the last call.
    pub(super) fn take(&self) -> Vec<strict::Summary> {
        std::mem::take(&mut self.record.lock().expect("no thread panics with it").arrived)
    }

    /// The faults since the last call.
    pub(super) fn faults(&self) -> Vec<String> {
        std::mem::take(&mut self.record.lock().expect("no thread panics with it").faults)
    }
}

fn serve(mut stream: TcpStream, record: &Mutex<Record>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        bytes.extend_from_slice(&piece[..count]);
        loop {
            match strict::read(&bytes) {
                Ok(None) => break,
                Ok(Some((summary, len))) => {
                    bytes.drain(..len);
                    record.lock().expect("no thread panics with it").arrived.push(summary);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
                Err(fault) => {
                    record.lock().expect("no thread panics with it").faults.push(fault);
                    return;
                }
            }
        }
    }
}
