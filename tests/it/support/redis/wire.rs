//! A TCP proxy between a gateway and Redis that can delay, drop or corrupt bytes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::now;

/// The treatment of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are forwarded.
    None,
    /// Answers are delayed by this time, however many are in progress.
    Delay(Duration),
    /// One of this number of answers is delayed. The answers after it wait for it.
    Late(Duration, usize),
    /// The bytes are dropped without an error: the connection is half open.
    Swallow,
    /// Every answer is replaced by bytes that Redis never sends.
    Garbage,
    /// Connections are closed, and new ones at once.
    Cut,
}

/// A TCP proxy with its own port.
pub(crate) struct Wire {
    port: u16,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    fault: Fault,
    open: Vec<TcpStream>,
}

impl Shared {
    fn close_all(&mut self) {
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Wire {
    /// A wire to this port of the loopback, without a fault.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let shared = Arc::new(Mutex::new(Shared { fault: Fault::None, open: Vec::new() }));
        let wire = Self {
            port: listener.local_addr().expect("an address").port(),
            shared: Arc::clone(&shared),
        };
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // The lock is held throughout, so that every connection sees the change.
                let mut held = shared.lock().expect("no thread panics with it");
                if held.fault == Fault::Cut {
                    continue;
                }
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                held.open.extend([near.try_clone(), far.try_clone()].into_iter().flatten());
                drop(held);
                join(near, far, &shared);
            }
        });
        wire
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server through this wire.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Changes the fault, also of open connections.
    pub(crate) fn set(&self, fault: Fault) {
        let mut shared = self.shared.lock().expect("no thread panics with it");
        shared.fault = fault;
        if fault == Fault::Cut {
            shared.close_all();
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.set(Fault::Cut);
    }
}

/// Forwards bytes in both directions until one end closes.
fn join(near: TcpStream, far: TcpStream, shared: &Arc<Mutex<Shared>>) {
    let ends = [&near, &far].map(|end| end.set_nodelay(true).and_then(|()| end.try_clone()));
    let [Ok(near_again), Ok(far_again)] = ends else { return };
    let (sender, receiver) = mpsc::channel();
    let asking = Arc::clone(shared);
    let answering = Arc::clone(shared);
    thread::spawn(move || carry_questions(near, far, &asking));
    thread::spawn(move || read_answers(far_again, &sender, &answering));
    thread::spawn(move || write_answers(near_again, &receiver));
}

fn fault(shared: &Mutex<Shared>) -> Fault {
    shared.lock().expect("no thread panics with it").fault
}

fn carry_questions(mut from: TcpStream, mut to: TcpStream, shared: &Mutex<Shared>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if fault(shared) != Fault::Swallow && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// An answer, and the time at which it is forwarded.
type Due = (Instant, Vec<u8>);

fn read_answers(mut from: TcpStream, to: &Sender<Due>, shared: &Mutex<Shared>) {
    let mut buffer = [0; 16 * 1024];
    let mut answers = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        answers += 1;
        let due = match fault(shared) {
            Fault::Swallow => continue,
            Fault::Late(by, one_in) if answers % one_in == 0 => (now() + by, bytes.to_vec()),
            Fault::Delay(by) => (now() + by, bytes.to_vec()),
            Fault::Garbage => (now(), b"\x00!*-7\r\nnonsense\xff".to_vec()),
            Fault::None | Fault::Late(..) | Fault::Cut => (now(), bytes.to_vec()),
        };
        if to.send(due).is_err() {
            return;
        }
    }
}

fn write_answers(mut to: TcpStream, from: &Receiver<Due>) {
    for (due, bytes) in from {
        thread::sleep(due.saturating_duration_since(now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
