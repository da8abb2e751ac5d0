//! A fake server that misbehaves as a test says. It answers the commands of a handshake. The
//! test sets how it answers scripts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::super::settings::{Address, Topology};
use super::super::slots::slot;

/// How the server answers scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Manner {
    /// With their bodies.
    Echo,
    /// It does not answer.
    Stall,
    /// With their bodies, or with an error if their keys are in several slots.
    EchoBySlot,
    /// With these bytes.
    Bytes(String),
    /// With their bodies if this is their key, and otherwise with this error: it has the other keys
    /// no more.
    HasOnly(String, String),
    /// It closes the connection.
    Close,
    /// It closes the connection at the first one, and answers the others with their bodies.
    CloseOnce,
}

impl Manner {
    pub(in super::super) fn error(line: &str) -> Self {
        Self::Bytes(format!("-{line}\r\n"))
    }
}

/// A fake server.
#[derive(Clone)]
pub(in super::super) struct FakeServer(Rc<Shared>);

struct Shared {
    address: Address,
    manner: RefCell<Manner>,
    /// The reply to `CLUSTER SLOTS`.
    slots: RefCell<String>,
    /// The master in the replies to `SENTINEL`.
    master: RefCell<Option<Address>>,
    /// The reply to `ROLE`. If the server sleeps, it answers neither this nor later commands.
    asleep: Cell<bool>,
    scripts: Cell<u32>,
    asking: Cell<u32>,
    connections: Cell<u32>,
    /// Notified when all connections must close.
    closing: Notify,
}

impl FakeServer {
    pub(in super::super) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let server = Self(Rc::new(Shared {
            address: Address::tcp("127.0.0.1", port),
            manner: RefCell::new(manner),
            slots: RefCell::new("*0\r\n".to_owned()),
            master: RefCell::new(None),
            asleep: Cell::new(false),
            scripts: Cell::new(0),
            asking: Cell::new(0),
            connections: Cell::new(0),
            closing: Notify::new(),
        }));
        let accepting = server.clone();
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepting.0.connections.set(accepting.0.connections.get() + 1);
                spawn_local(accepting.clone().talk(stream));
            }
        });
        server
    }

    pub(in super::super) fn address(&self) -> Address {
        self.0.address.clone()
    }

    pub(in super::super) fn topology(&self) -> Topology {
        Topology::Standalone(self.address())
    }

    pub(in super::super) fn behave(&self, manner: Manner) {
        self.0.manner.replace(manner);
    }

    /// Makes the server answer no commands, not even those of a handshake.
    pub(in super::super) fn sleep(&self, asleep: bool) {
        self.0.asleep.set(asleep);
    }

    /// Sets the nodes of consecutive slots.
    pub(in super::super) fn tell(&self, ranges: &[(u16, u16, &FakeServer)]) {
        let mut slots = format!("*{}\r\n", ranges.len());
        for (first, last, node) in ranges {
            let Address::Tcp { host, port } = node.address() else { continue };
            let length = host.len();
            slots +=
                &format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n${length}\r\n{host}\r\n:{port}\r\n");
        }
        self.0.slots.replace(slots);
    }

    /// Makes the server a sentinel that knows `master`.
    pub(in super::super) fn watch(&self, master: &FakeServer) {
        self.0.master.replace(Some(master.address()));
    }

    /// Closes all connections, as a server does with idle ones.
    pub(in super::super) fn close_all(&self) {
        self.0.closing.notify_waiters();
    }

    /// The number of scripts that the server was asked to run.
    pub(in super::super) fn scripts(&self) -> u32 {
        self.0.scripts.get()
    }

    pub(in super::super) fn asking(&self) -> u32 {
        self.0.asking.get()
    }

    pub(in super::super) fn connections(&self) -> u32 {
        self.0.connections.get()
    }

    async fn talk(self, mut stream: TcpStream) {
        let mut received = Vec::new();
        loop {
            select! {
                read = stream.read_buf(&mut received) => match read {
                    Ok(count) if count > 0 => {}
                    _ => return,
                },
                () = self.0.closing.notified() => return,
            }
            while let Some((command, length)) = command(&received) {
                received.drain(..length);
                if self.0.asleep.get() {
                    continue;
                }
                let Some(answer) = self.answer(&command) else { return };
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }

    fn answer(&self, command: &[String]) -> Option<String> {
        let name = command.first().map(String::as_str).unwrap_or_default();
        Some(match name {
            "ROLE" => "*1\r\n$6\r\nmaster\r\n".to_owned(),
            "PING" => "+PONG\r\n".to_owned(),
            "CLUSTER" => self.0.slots.borrow().clone(),
            "SENTINEL" => self.master(),
            "EVALSHA" => return self.run(command),
            "ASKING" => {
                self.0.asking.set(self.0.asking.get() + 1);
                "+OK\r\n".to_owned()
            }
            _ => "+OK\r\n".to_owned(),
        })
    }

    fn master(&self) -> String {
        match &*self.0.master.borrow() {
            Some(Address::Tcp { host, port }) => {
                let port = port.to_string();
                let host_length = host.len();
                let port_length = port.len();
                format!("*2\r\n${host_length}\r\n{host}\r\n${port_length}\r\n{port}\r\n")
            }
            _ => "*-1\r\n".to_owned(),
        }
    }

    fn run(&self, command: &[String]) -> Option<String> {
        if command[2] == "0" {
            return Some("*0\r\n".to_owned()); // the call of a handshake
        }
        self.0.scripts.set(self.0.scripts.get() + 1);
        if *self.0.manner.borrow() == Manner::CloseOnce {
            self.behave(Manner::Echo);
            return None;
        }
        match &*self.0.manner.borrow() {
            Manner::Stall => Some(String::new()),
            Manner::Close | Manner::CloseOnce => None,
            Manner::Bytes(bytes) => Some(bytes.clone()),
            Manner::HasOnly(key, line) if command[3] != *key => Some(format!("-{line}\r\n")),
            Manner::Echo | Manner::EchoBySlot | Manner::HasOnly(..) => {
                let keys: usize = command[2].parse().expect("the number of keys");
                let slots: BTreeSet<u16> =
                    command[3..3 + keys].iter().map(|key| slot(key.as_bytes())).collect();
                if slots.len() > 1 && *self.0.manner.borrow() == Manner::EchoBySlot {
                    return Some(
                        "-CROSSSLOT Keys in request don't hash to the same slot\r\n".to_owned(),
                    );
                }
                let bodies = &command[3 + keys + 1..];
                let mut answer = format!("*{}\r\n", bodies.len());
                for body in bodies {
                    answer += &format!("${}\r\n{body}\r\n", body.len());
                }
                Some(answer)
            }
        }
    }
}

/// The first command in `received` and its length, if it is complete.
fn command(received: &[u8]) -> Option<(Vec<String>, usize)> {
    let mut at = 0;
    let count = number(received, &mut at)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = number(received, &mut at)?;
        let word = received.get(at..at + length + 2)?;
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
        at += length + 2;
    }
    Some((words, at))
}

/// The number on the line at `at`, after its first character.
fn number(received: &[u8], at: &mut usize) -> Option<usize> {
    let rest = received.get(*at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()
}
