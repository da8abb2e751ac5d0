//! An endpoint of HTTP/2 that says frame by frame what a test wants.

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
    /// Gives each frame that comes to `answer`, with the number of its connection,
    /// from 0 on, and sends what it returns.
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

    /// Gives each connection to `serve`, with its number and a function that
    /// remembers a frame; the connection closes when it returns.
    pub(crate) fn serving(
        serve: impl Fn(usize, &mut Frames, &dyn Fn(Frame)) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (frames, connections) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let (log, count, serve) = (Arc::clone(&frames), Arc::clone(&connections), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (log, serve) = (Arc::<Mutex<Vec<Frame>>>::clone(&log), Arc::clone(&serve));
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

    /// As a configuration names it.
    pub(crate) fn url(&self) -> String {
        format!("h2c://{}", self.address)
    }

    /// All frames that came so far, on whichever connection.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        self.frames.lock().expect("no thread panics with it").clone()
    }

    /// Frames of this type that came so far.
    pub(crate) fn count(&self, kind: u8) -> usize {
        self.frames().iter().filter(|frame| frame.kind == kind).count()
    }

    /// How many connections were opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
