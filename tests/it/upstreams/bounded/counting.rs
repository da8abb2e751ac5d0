//! An origin that counts its connections.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use std::io::Write as _;

use crate::support::{Origin, PATIENCE, now};

/// An origin of HTTP/1.1 that notices if it has more connections than it may have.
pub(super) struct Counting {
    origin: Origin,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    open: AtomicUsize,
    is_exceeded: AtomicBool,
    /// How many responses may be sent; none of them waits if it is [`usize::MAX`].
    gate: Mutex<usize>,
    opened: Condvar,
}

impl Counting {
    /// Responds to each request after this time.
    pub(super) fn answering(max: usize, time: Duration) -> Self {
        let counting = Self::start(max, time, |_| OK.to_owned());
        counting.open();
        counting
    }

    /// Responds to no request before the gate is opened.
    pub(super) fn gated(max: usize) -> Self {
        Self::start(max, Duration::ZERO, |_| OK.to_owned())
    }

    /// Responds to the request with this number, counted from 1, with these bytes. The connection is
    /// closed after an answer that says so.
    pub(super) fn start(
        max: usize,
        time: Duration,
        answer: impl Fn(usize) -> String + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let counted = Arc::clone(&shared);
        let requests = AtomicUsize::new(0);
        let origin = Origin::serving(move |stream, read| {
            let shared = &counted;
            shared.open.fetch_add(1, Ordering::SeqCst);
            // A connection that the gateway has closed before may be noticed only now.
            let deadline = now() + PATIENCE / 4;
            while shared.open.load(Ordering::SeqCst) > max {
                if now() > deadline {
                    shared.is_exceeded.store(true, Ordering::SeqCst);
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            while read().is_some() {
                thread::sleep(time);
                shared.pass();
                let answer = answer(requests.fetch_add(1, Ordering::SeqCst) + 1);
                // Counted before the gateway can know that the connection is closed.
                let is_last = answer.contains("Connection: close");
                if is_last {
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                }
                if stream.write_all(answer.as_bytes()).is_err() || is_last {
                    if !is_last {
                        shared.open.fetch_sub(1, Ordering::SeqCst);
                    }
                    return;
                }
            }
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
        Self { origin, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.origin.address())
    }

    pub(super) fn port(&self) -> u16 {
        self.origin.address().port()
    }

    /// The paths of all requests until now.
    pub(super) fn requests(&self) -> Vec<String> {
        let received = self.origin.received();
        let path = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
        received.iter().map(|request| path(request.line())).collect()
    }

    /// All connections until now.
    pub(super) fn connections(&self) -> usize {
        self.origin.connections()
    }

    /// Whether there were more connections than allowed, and not only for a moment.
    pub(super) fn is_exceeded(&self) -> bool {
        self.shared.is_exceeded.load(Ordering::SeqCst)
    }

    /// Lets one more response pass.
    pub(super) fn pass_one(&self) {
        *self.shared.gate.lock().expect("no thread panics with it") += 1;
        self.shared.opened.notify_all();
    }

    /// Lets all responses pass.
    pub(super) fn open(&self) {
        *self.shared.gate.lock().expect("no thread panics with it") = usize::MAX;
        self.shared.opened.notify_all();
    }
}

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

impl Shared {
    fn pass(&self) {
        let gate = self.gate.lock().expect("no thread panics with it");
        let is_shut = |left: &mut usize| *left == 0;
        let mut gate = self.opened.wait_while(gate, is_shut).expect("no thread panics with it");
        if *gate != usize::MAX {
            *gate -= 1;
        }
    }
}
