//! The bytes between a node and the model of the server: one end of a
//! connection, and the part of Redis' protocol that they use.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::world::World;

/// A command: its words.
pub(super) type Command = Vec<Vec<u8>>;

/// A node's end of a connection, by its number in the network.
pub(super) struct Pipe(pub(super) usize);

fn lost() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(world) = World::here() else { return Poll::Ready(Err(lost())) };
        world.network.read(self.0, cx, to)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(world) = World::here() else { return Poll::Ready(Err(lost())) };
        Poll::Ready(world.network.write(&world, self.0, bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(world) = World::here() {
            world.network.hang_up(self.0);
        }
    }
}

/// Takes all whole commands off the front of what was received.
pub(super) fn commands(received: &mut Vec<u8>) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut done = 0;
    while let Some((command, length)) = command(&received[done..]) {
        commands.push(command);
        done += length;
    }
    received.drain(..done);
    commands
}

fn command(received: &[u8]) -> Option<(Command, usize)> {
    let mut at = 0;
    let count = number(received, &mut at)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(received, &mut at)?;
        words.push(received.get(at..at + length)?.to_vec());
        received.get(at + length..at + length + 2)?;
        at += length + 2;
    }
    Some((words, at))
}

/// The number on the line at `at`, behind its sign.
fn number(received: &[u8], at: &mut usize) -> Option<usize> {
    let rest = received.get(*at..)?;
    let end = rest.windows(2).take(16).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    std::str::from_utf8(rest.get(1..end)?).ok()?.parse().ok()
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(&'static str),
    Error(String),
    Number(u64),
    Text(Vec<u8>),
    Nothing,
    List(Vec<Self>),
}

impl Reply {
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Simple(text) => to.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Self::Error(text) => to.extend_from_slice(format!("-{text}\r\n").as_bytes()),
            Self::Number(number) => to.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Self::Text(text) => {
                to.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
                to.extend_from_slice(text);
                to.extend_from_slice(b"\r\n");
            }
            Self::Nothing => to.extend_from_slice(b"$-1\r\n"),
            Self::List(items) => {
                to.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
                items.iter().for_each(|item| item.write(to));
            }
        }
    }
}
