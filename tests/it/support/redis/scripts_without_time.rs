//! A server whose scripts cannot ask for the time, as those of some services.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::{io, thread};

use super::{LOOPBACK, Options, Redis};

/// The name under which the server has `TIME`. Scripts do not know it.
const RENAMED: &str = "HIDDENTIME";

/// A real server, and a proxy which translates `TIME` outside of scripts.
pub(crate) struct ScriptsWithoutTime {
    server: Redis,
    port: u16,
}

impl ScriptsWithoutTime {
    pub(crate) fn start(options: Options) -> Self {
        Self::start_by(Redis::start, options)
    }

    /// The same, with a server of [`Redis::start_with_slots`].
    pub(crate) fn start_with_slots(options: Options) -> Self {
        Self::start_by(Redis::start_with_slots, options)
    }

    fn start_by(start: fn(Options) -> Redis, mut options: Options) -> Self {
        options.lines.push(format!("rename-command TIME {RENAMED}"));
        let server = start(options);
        let listener = TcpListener::bind((LOOPBACK, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let upstream = server.port();
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                // A server that has ended ends its connections.
                let _ = join(client, upstream);
            }
        });
        Self { server, port }
    }

    /// The server behind the proxy.
    pub(crate) fn server(&self) -> &Redis {
        &self.server
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{LOOPBACK}:{}", self.port)
    }
}

/// Joins a client with the server.
fn join(client: TcpStream, upstream: u16) -> io::Result<()> {
    let server = TcpStream::connect((LOOPBACK, upstream))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut replies = server.try_clone()?;
    let mut to_client = client.try_clone()?;
    thread::spawn(move || {
        let _ = io::copy(&mut replies, &mut to_client);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = translate(client, &server);
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

/// Passes on commands until the client ends.
fn translate(mut client: TcpStream, mut server: &TcpStream) -> io::Result<()> {
    let mut received = Vec::new();
    let mut chunk = [0; 16_384];
    loop {
        let count = client.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        received.extend_from_slice(&chunk[..count]);
        let mut passed = Vec::new();
        while let Some((name, end)) = command(&received) {
            match &received[name] {
                b"TIME" => {
                    let renamed = format!("*1\r\n${}\r\n{RENAMED}\r\n", RENAMED.len());
                    passed.extend_from_slice(renamed.as_bytes());
                }
                _ => passed.extend_from_slice(&received[..end]),
            }
            received.drain(..end);
        }
        server.write_all(&passed)?;
    }
}

/// The name of the first command, and its end. None if it is not complete.
fn command(bytes: &[u8]) -> Option<(Range<usize>, usize)> {
    let (words, mut at) = number(bytes, 0)?;
    let mut name = None;
    for _ in 0..words {
        let (length, begin) = number(bytes, at)?;
        at = begin + length + 2;
        name.get_or_insert(begin..begin + length);
    }
    (at <= bytes.len()).then_some((name?, at))
}

/// The number in the line at `at`, behind its kind, and the end of the line.
fn number(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let line = bytes.get(at + 1..)?;
    let length = line.windows(2).position(|it| it == b"\r\n")?;
    let number = str::from_utf8(&line[..length]).ok()?.parse().ok()?;
    Some((number, at + 1 + length + 2))
}
