//! The guard between the socket and the HTTP library: only complete heads that were
//! checked pass.
//!
//! Guarantee: the library reads no byte of a malformed head, nor of what follows it. It
//! reads a request of the guard instead. So the error is answered and logged like any
//! other request, after the responses to earlier requests, and the connection closes.
//!
//! What is read and written is recorded in the [activity](crate::server::state::activity) of the
//! connection.
//!
//! A head that arrives completely is checked in the library's buffer and not copied. Of
//! several requests that arrive together, one passes at a time, and the task yields to
//! other connections between two of them.

#[cfg(any(test, feature = "fuzzing"))]
pub mod guarded;
mod held;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_core::request::Malformed;

use super::chunks::Chunks;
use super::head::{Framing, Head, HeadReader};
use crate::server::settings::HeadBounds;
use crate::server::state::exchange::Exchange;
use crate::server::state::interim::InterimWriter;
use crate::server::state::progress::Progress as _;
use crate::server::state::{ClientLink, HeadLines};
use held::Held;

/// The request that the library reads instead of a malformed head. The access log shows
/// its method and target, which stand for those that were not read.
pub const REFUSED: &[u8] = b"- * HTTP/1.1\r\nConnection: close\r\n\r\n";

/// How many bytes after a request to change the protocol are kept until its response. A
/// client has to wait for the response; if it sends more, the connection is closed.
const MAX_UNDECIDED_BYTES: usize = 16 * 1024;

/// The kind of the next bytes on a connection.
#[derive(Debug)]
enum Next {
    Head(HeadReader),
    /// A body with this number of bytes to come.
    Length(u64),
    Chunks(Chunks),
    /// HTTP or another protocol, depending on the response to the last request.
    Undecided,
    /// Another protocol.
    Tunnel,
    /// Bytes after a malformed head, which are not read.
    Refused,
    /// Bytes that break the current body.
    Broken(Malformed),
}

/// Unchecked bytes after a request that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// The next request, which waits until the task has yielded.
    Waiting,
    /// The next request, after the task has yielded.
    Due,
}

/// A stream that passes only checked bytes to the HTTP library, and writes interim responses
/// between the responses of the library, and lines of the service into their heads.
#[derive(Debug)]
pub struct Guard<T> {
    stream: T,
    exchange: Rc<Exchange>,
    bounds: HeadBounds,
    next: Next,
    /// How many heads have passed.
    requests: u64,
    /// Whether the current request asks to change the protocol.
    asks_upgrade: bool,
    held: Held,
    behind: Behind,
    interim: InterimWriter,
    lines: HeadLines,
}

impl<T> Guard<T> {
    pub fn new(stream: T, exchange: Rc<Exchange>, bounds: HeadBounds, link: &ClientLink) -> Self {
        Self {
            stream,
            exchange,
            bounds,
            next: Next::Head(HeadReader::default()),
            requests: 0,
            asks_upgrade: false,
            held: Held::default(),
            behind: Behind::Nothing,
            interim: link.interim.writer(),
            lines: link.lines.clone(),
        }
    }

    /// Whether bytes were read that the library has not got.
    pub fn holds_bytes(&self) -> bool {
        !self.held.is_empty()
    }

    /// The stream. Bytes that were held are dropped.
    pub fn into_inner(self) -> T {
        self.stream
    }

    /// Checks `bytes`, which follow those that have passed. Returns how many of them may
    /// pass now.
    fn check(&mut self, bytes: &[u8]) -> usize {
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
                    self.exchange.body_arrives(self.requests, Some(*left));
                    if *left == 0 {
                        self.end(at < bytes.len());
                    }
                }
                Next::Chunks(chunks) => match chunks.check(rest, &self.bounds) {
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

    /// A head passes. `is_more`: whether more bytes have arrived.
    fn begin(&mut self, head: Head, is_more: bool) {
        self.requests += 1;
        self.asks_upgrade = head.asks_upgrade;
        if head.asks_upgrade {
            self.exchange.request_upgrade();
        }
        match head.framing {
            Framing::Length(0) => self.end(is_more),
            Framing::Length(length) => {
                self.exchange.body_arrives(self.requests, Some(length));
                self.next = Next::Length(length);
            }
            Framing::Chunked => {
                self.exchange.body_arrives(self.requests, None);
                self.next = Next::Chunks(Chunks::new());
            }
        }
    }

    /// The end of a request passes. `is_more`: whether more bytes have arrived.
    fn end(&mut self, is_more: bool) {
        self.exchange.request_ends();
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
        self.exchange.refuse(malformed);
        self.next = Next::Refused;
    }

    /// Applies what happened since the last call: a time limit, or a response that changes
    /// the protocol.
    fn update(&mut self) {
        match self.next {
            Next::Head(_) if self.exchange.is_late() => {
                self.refuse(Malformed::HeadTooLate);
                self.clear(0);
            }
            Next::Undecided => {
                if let Some(granted) = self.exchange.upgraded(None) {
                    self.next =
                        if granted { Next::Tunnel } else { Next::Head(HeadReader::default()) };
                    self.check_held();
                }
            }
            _ => {}
        }
    }

    fn check_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let passed = self.check(held.rest());
        std::mem::swap(&mut self.held, &mut held);
        self.clear(passed);
    }

    /// Lets `passed` of the unchecked bytes pass.
    fn clear(&mut self, passed: usize) {
        self.held.clear(passed);
        match &mut self.next {
            Next::Refused => self.held.replace_rest(REFUSED),
            Next::Head(reader) => {
                // Empty lines before a head are not part of it.
                let empty = reader.skippable().unwrap_or(0);
                if empty > 0 {
                    self.held.skip(empty);
                    *reader = HeadReader::default();
                }
                if !self.held.rest().is_empty() {
                    self.exchange.head_begins();
                }
            }
            _ => {}
        }
    }
}

impl<T: AsyncRead + Unpin> Guard<T> {
    /// Reads into the buffer of the library. No bytes may be held.
    fn poll_read_in_place(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<End>> {
        let start = buf.filled().len();
        let polled = poll_stream(&mut self.stream, &self.exchange, cx, buf);
        if matches!(self.next, Next::Head(_)) {
            self.exchange.awaits_head(polled.is_pending());
        }
        if ready!(polled)? == 0 {
            return Poll::Ready(Ok(End::OfStream));
        }
        let bytes = &buf.filled()[start..];
        let passed = self.check(bytes);
        if passed < bytes.len() {
            self.held.push(&bytes[passed..]);
            self.clear(0);
            buf.set_filled(start + passed);
        }
        Poll::Ready(Ok(End::NotYet))
    }

    /// Reads into the held bytes.
    fn poll_read_aside(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<End>> {
        if matches!(self.next, Next::Undecided) {
            self.exchange.upgraded(Some(cx.waker()));
            if self.held.rest().len() >= MAX_UNDECIDED_BYTES {
                // The gateway must keep reading, or it would not notice that the client closes.
                let excess = "too many bytes follow a request to change the protocol";
                return Poll::Ready(Err(io::Error::other(excess)));
            }
        }
        let Self { held, stream, exchange, .. } = self;
        if ready!(held.poll_fill(|buf| poll_stream(stream, exchange, cx, buf)))? == 0 {
            return Poll::Ready(Ok(End::OfStream));
        }
        self.check_held();
        Poll::Ready(Ok(End::NotYet))
    }
}

/// Reads from the client. Returns the number of bytes.
fn poll_stream<T: AsyncRead + Unpin>(
    stream: &mut T,
    exchange: &Exchange,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<usize>> {
    let polled = exchange.activity().poll_read(stream, cx, buf);
    if polled.is_pending() {
        exchange.waits_to_read();
    }
    polled
}

/// Whether the stream has ended.
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
        guard.update();
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
                    guard.check_held();
                    continue;
                }
            }
            let end = match guard.next {
                // The response closes the connection; until then nothing is read.
                Next::Refused => return Poll::Pending,
                Next::Broken(malformed) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, malformed)));
                }
                Next::Undecided => ready!(guard.poll_read_aside(cx))?,
                // The ticks wake the task for that, or sooner the response does.
                Next::Head(_) if guard.held.is_empty() && guard.exchange.puts_off_read() => {
                    return Poll::Pending;
                }
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
        ready!(guard.interim.poll_before_write(cx, &mut guard.stream, &guard.exchange))?;
        if guard.lines.are_waiting() {
            return guard.lines.poll_write(cx, &mut guard.stream, &[IoSlice::new(buf)]);
        }
        guard.exchange.activity().poll_write(&mut guard.stream, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        ready!(guard.interim.poll_before_write(cx, &mut guard.stream, &guard.exchange))?;
        if guard.lines.are_waiting() {
            return guard.lines.poll_write(cx, &mut guard.stream, bufs);
        }
        guard.exchange.activity().poll_write_vectored(&mut guard.stream, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        ready!(guard.interim.poll_on_flush(cx, &mut guard.stream, &guard.exchange))?;
        guard.exchange.activity().poll_flush(&mut guard.stream, cx)
    }

    /// Shuts down what is a tunnel or may become one. HTTP is not shut down here: what gets the
    /// stream back from the library closes it.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        if matches!(guard.next, Next::Tunnel | Next::Undecided) {
            return Pin::new(&mut guard.stream).poll_shutdown(cx);
        }
        Poll::Ready(Ok(()))
    }
}
