//! An endpoint of HTTP/2 that sends the frames of a test.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::frames::{Frame, Frames};

/// An endpoint on a free port. Its threads end when their connections do.
pub(crate) struct Endpoint {
    address: SocketAddr,
    frames: Arc<Mutex<Vec<Frame>>>,
    connections: Arc<AtomicUsize>,
}

impl Endpoint {
    /// Passes each received frame to `answer`, with the number of its connection, counted
    /// from 0, and sends the bytes that `answer` returns.
    pub(crate) fn answering(
        answer: impl Fn(usize, &Frame) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::serving(move |number, connection, log| {
            while let Ok(Some(frame)) = connection.next() {
                let bytes = answer(number, &frame);
                log(frame);
                if !connection.send(&bytes) {
                    return;
                }
            }
        })
    }

    /// Passes each connection to `serve`, with its number and a function that records a
    /// frame. The connection is closed when `serve` returns.
    pub(crate) fn serving(
        serve: impl Fn(usize, &mut Frames, &dyn Fn(Frame)) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let frames = Arc::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let log = Arc::clone(&frames);
        let count = Arc::clone(&connections);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let log = Arc::<Mutex<Vec<Frame>>>::clone(&log);
                let serve = Arc::clone(&serve);
                thread::spawn(move || {
                    if let Ok(mut connection) = Frames::accepted(stream) {
                        let log = |frame| log.lock().expect("no thread panics with it").push(frame);
                        serve(number, &mut connection, &log);
                    }
                });
            }
        });
        Self { address, frames, connections }
    }

    /// Its URL for a configuration.
    pub(crate) fn url(&self) -> String {
        format!("h2c://{}", self.address)
    }

    /// All frames so far, of all connections.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        self.frames.lock().expect("no thread panics with it").clone()
    }

    /// The number of frames of this type so far.
    pub(crate) fn count(&self, kind: u8) -> usize {
        self.frames().iter().filter(|frame| frame.kind == kind).count()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
