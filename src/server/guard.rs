//! The guard between the socket and the HTTP library: only heads that have been
//! judged pass, and only whole ones.
//!
//! What it guarantees: the library never sees a byte of a head that may not pass,
//! nor of what follows it. It reads a request of the guard's own instead, so that
//! such a client is answered, logged and closed like any other, after the
//! answers to what it had sent before.
//!
//! A head that comes whole is judged where the library reads it and not copied.
//! Of many requests that come at once one passes at a time, and between two of them
//! all other connections have their turn: nobody waits for another's hundred.

#[cfg(any(test, fuzzing))]
pub(super) mod guarded;
mod held;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::chunks::Chunks;
use super::head::{Framing, Head, HeadBounds, HeadReader};
use super::interim::InterimWriter;
use super::turns::Turns;
use crate::request::Malformed;
use held::Held;

/// The method of the guard's own requests, which no client's request can have.
pub(super) const REFUSED_METHOD: &str = "-";

/// What the library reads instead of a head that may not pass. A method and a
/// target have to stand there; in the access log they are what was not read.
pub(super) const REFUSED: &[u8] = b"- * HTTP/1.1\r\nConnection: close\r\n\r\n";

/// Bytes that are kept of what follows a request to change the protocol, until
/// it has been answered. A client has to wait for that answer; one that sends more
/// loses its connection.
const MAX_UNDECIDED_BYTES: usize = 16 * 1024;

/// What comes next on a connection.
#[derive(Debug)]
enum Next {
    Head(HeadReader),
    /// So many bytes of a body.
    Length(u64),
    Chunks(Chunks),
    /// HTTP or another protocol: the answer to the last request tells.
    Undecided,
    /// Another protocol.
    Tunnel,
    /// Nothing that anybody will read.
    Refused,
    /// Nothing that belongs to the body which is being read.
    Broken(Malformed),
}

/// What is held behind a request that has passed, and not judged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// The next request, which waits until others have had their turn.
    Waiting,
    /// The next request, whose turn it is.
    Due,
}

/// A stream that shows the HTTP library only what has been judged, and writes
/// interim responses between those of the library.
#[derive(Debug)]
pub(super) struct Guard<T> {
    stream: T,
    turns: Rc<Turns>,
    bounds: HeadBounds,
    next: Next,
    /// Whether the request that is being read asks for another protocol.
    asks_upgrade: bool,
    held: Held,
    behind: Behind,
    interim: InterimWriter,
}

impl<T> Guard<T> {
    pub(super) fn new(
        stream: T,
        turns: Rc<Turns>,
        bounds: HeadBounds,
        interim: InterimWriter,
    ) -> Self {
        Self {
            stream,
            turns,
            bounds,
            next: Next::Head(HeadReader::default()),
            asks_upgrade: false,
            held: Held::default(),
            behind: Behind::Nothing,
            interim,
        }
    }

    /// The stream; what was held of it is given up.
    pub(super) fn into_inner(self) -> T {
        self.stream
    }

    /// Follows `bytes`, which begin where what has passed ended, and says how many
    /// of them may pass now.
    fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.behind == Behind::Nothing {
            let rest = &bytes[at..];
            match &mut self.next {
                Next::Head(reader) => match reader.read(rest, &self.bounds) {
                    Ok(Some(head)) => {
                        at += head.len;
                        self.begin(head, at < bytes.len());
                    }
                    Ok(None) => return at,
                    Err(malformed) => {
                        self.refuse(malformed);
                        return at;
                    }
                },
                Next::Length(left) => {
                    let passed = usize::try_from(*left).map_or(rest.len(), |n| n.min(rest.len()));
                    *left -= u64::try_from(passed).expect("it is at most what is left");
                    at += passed;
                    self.turns.body_goes_on(Some(*left));
                    if *left == 0 {
                        self.end(at < bytes.len());
                    }
                }
                Next::Chunks(chunks) => match chunks.follow(rest, &self.bounds) {
                    Ok(passed) => {
                        at += passed;
                        if chunks.has_ended() {
                            self.end(at < bytes.len());
                        }
                    }
                    Err((passed, malformed)) => {
                        self.next = Next::Broken(malformed);
                        return at + passed;
                    }
                },
                Next::Tunnel => return bytes.len(),
                Next::Undecided | Next::Refused | Next::Broken(_) => return at,
            }
        }
        at
    }

    /// A head has passed, and maybe more has come.
    fn begin(&mut self, head: Head, is_more: bool) {
        self.turns.activity().head_is_whole();
        self.asks_upgrade = head.asks_upgrade;
        if head.asks_upgrade {
            self.turns.ask_for_upgrade();
        }
        match head.framing {
            Framing::Length(0) => self.end(is_more),
            Framing::Length(length) => {
                self.turns.body_goes_on(Some(length));
                self.next = Next::Length(length);
            }
            Framing::Chunked => {
                self.turns.body_goes_on(None);
                self.next = Next::Chunks(Chunks::new());
            }
        }
    }

    /// A request has passed, with its body, and maybe more has come.
    fn end(&mut self, is_more: bool) {
        self.turns.body_has_passed();
        if self.asks_upgrade {
            self.next = Next::Undecided;
            return;
        }
        self.next = Next::Head(HeadReader::default());
        if is_more {
            self.behind = Behind::Waiting;
        }
    }

    fn refuse(&mut self, malformed: Malformed) {
        self.turns.activity().head_is_whole();
        self.turns.refuse(malformed);
        self.turns.body_has_passed();
        self.next = Next::Refused;
    }

    /// Takes note of what others have decided since the last look.
    fn look_up(&mut self) {
        match self.next {
            Next::Head(_) if self.turns.activity().is_late() => {
                self.refuse(Malformed::HeadTooLate);
                self.settle(0);
            }
            Next::Undecided => {
                if let Some(granted) = self.turns.upgraded() {
                    self.next =
                        if granted { Next::Tunnel } else { Next::Head(HeadReader::default()) };
                    self.follow_held();
                }
            }
            _ => {}
        }
    }

    fn follow_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let passed = self.follow(held.rest());
        std::mem::swap(&mut self.held, &mut held);
        self.settle(passed);
    }

    /// Of what is held and not cleared, `passed` bytes may pass.
    fn settle(&mut self, passed: usize) {
        self.held.clear(passed);
        match &mut self.next {
            Next::Refused => self.held.replace_rest(REFUSED),
            Next::Head(reader) => {
                // Of a head there is nothing before its first line.
                let empty = reader.skippable().unwrap_or(0);
                if empty > 0 {
                    self.held.skip(empty);
                    *reader = HeadReader::default();
                }
                if !self.held.rest().is_empty() {
                    self.turns.activity().head_begins();
                }
            }
            _ => {}
        }
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Reads to where the library wants it. Nothing may be held.
    fn poll_read_in_place(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<End>> {
        let start = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = &buf.filled()[start..];
        if bytes.is_empty() {
            return Poll::Ready(Ok(End::OfStream));
        }
        let passed = self.follow(bytes);
        if passed < bytes.len() {
            self.held.push(&bytes[passed..]);
            self.settle(0);
            buf.set_filled(start + passed);
        }
        Poll::Ready(Ok(End::NotYet))
    }

    /// Reads to what is held.
    fn poll_read_aside(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<End>> {
        if matches!(self.next, Next::Undecided) {
            self.turns.wake_on_upgrade(cx.waker());
            if self.held.rest().len() >= MAX_UNDECIDED_BYTES {
                // To read no more would be to miss that the client leaves.
                let excess = "too much has come behind a request to change the protocol";
                return Poll::Ready(Err(io::Error::other(excess)));
            }
        }
        if ready!(self.held.poll_fill(cx, &mut self.stream))? == 0 {
            return Poll::Ready(Ok(End::OfStream));
        }
        self.follow_held();
        Poll::Ready(Ok(End::NotYet))
    }
}

/// Whether more can come.
enum End {
    NotYet,
    OfStream,
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        guard.look_up();
        let start = buf.filled().len();
        loop {
            guard.held.pass(buf);
            if buf.filled().len() > start {
                return Poll::Ready(Ok(()));
            }
            match std::mem::replace(&mut guard.behind, Behind::Nothing) {
                Behind::Nothing => {}
                Behind::Waiting => {
                    guard.behind = Behind::Due;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Behind::Due => {
                    guard.follow_held();
                    continue;
                }
            }
            let end = match guard.next {
                // The answer ends the connection; until then nothing is heard.
                Next::Refused => return Poll::Pending,
                Next::Broken(malformed) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, malformed)));
                }
                Next::Undecided => ready!(guard.poll_read_aside(cx))?,
                _ if guard.held.is_empty() => ready!(guard.poll_read_in_place(cx, buf))?,
                _ => ready!(guard.poll_read_aside(cx))?,
            };
            if matches!(end, End::OfStream) || buf.filled().len() > start {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        ready!(guard.interim.poll_before_write(cx, &mut guard.stream, &guard.turns))?;
        Pin::new(&mut guard.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        ready!(guard.interim.poll_before_write(cx, &mut guard.stream, &guard.turns))?;
        Pin::new(&mut guard.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        ready!(guard.interim.poll_on_flush(cx, &mut guard.stream, &guard.turns))?;
        Pin::new(&mut guard.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
