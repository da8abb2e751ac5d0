//! Interim responses: what a backend says before its answer, like 103 Early Hints
//! (RFC 9110, section 15.2; RFC 8297).
//!
//! The HTTP library knows only final responses. So interim ones are written past
//! it, at the moments when nothing of another response is under way.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::task::AtomicWaker;
use http::header::{CONTENT_LENGTH, HeaderName, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;

use super::turns::Turns;
use crate::message::strip_hop_by_hop;

/// Interim responses for one request, of a backend that may have more to say
/// than anybody wants to hear.
const MAX_RESPONSES: usize = 16;
/// Bytes of all of them together.
const MAX_BYTES: usize = 16 * 1024;

/// The way of interim responses to the client of one request.
#[derive(Clone, Debug)]
pub struct Interim {
    shared: Arc<Shared>,
    /// The request that it is for, counted on its connection.
    request: u64,
}

/// What the connection's two sides share. The types demand that it could be
/// shared with other threads, though there are none.
#[derive(Debug, Default)]
struct Shared {
    /// The request under way; responses for any other are not written.
    request: AtomicU64,
    /// Whether its client knows interim responses.
    is_taken: AtomicBool,
    /// Whether somebody may send one for it.
    is_open: AtomicBool,
    /// Whether there is anything in the queue.
    is_waiting: AtomicBool,
    connection: AtomicWaker,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    request: u64,
    /// Since the request began.
    responses: usize,
    /// Since the request began.
    bytes: usize,
    text: Vec<u8>,
}

impl Interim {
    /// Writes a response with this status and these fields to the client, as soon
    /// as it can be done. Beyond 16 for one request, or 16 KiB, they are dropped.
    ///
    /// 100 is not written: asking for the body is between the client and us.
    pub fn send(&self, status: StatusCode, fields: &HeaderMap) {
        if !matches!(status.as_u16(), 102..=199) {
            return;
        }
        let text = head(status, fields);
        if self.shared.request.load(Ordering::Relaxed) != self.request {
            return;
        }
        let mut queue = self.shared.queue.lock();
        if queue.request != self.request {
            *queue = Queue { request: self.request, ..Queue::default() };
        }
        queue.responses += 1;
        queue.bytes += text.len();
        if queue.responses > MAX_RESPONSES || queue.bytes > MAX_BYTES {
            return;
        }
        queue.text.extend_from_slice(&text);
        drop(queue);
        self.shared.is_waiting.store(true, Ordering::Relaxed);
        self.shared.connection.wake();
    }
}

/// The head of an interim response as it goes over the wire.
fn head(status: StatusCode, fields: &HeaderMap) -> Vec<u8> {
    let mut fields = fields.clone();
    strip_hop_by_hop(&mut fields);
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER] {
        fields.remove(name);
    }
    let reason = status.canonical_reason().unwrap_or("Interim");
    let mut text = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    for (name, value) in &fields {
        title_case(name, &mut text);
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// Names as in all other responses.
fn title_case(name: &HeaderName, text: &mut Vec<u8>) {
    let mut starts_word = true;
    for byte in name.as_str().bytes() {
        text.push(if starts_word { byte.to_ascii_uppercase() } else { byte });
        starts_word = byte == b'-';
    }
}

/// The way of interim responses to the client of one connection.
#[derive(Clone, Debug, Default)]
pub struct InterimQueue(Arc<Shared>);

impl InterimQueue {
    /// The way to the client of the request under way; none for a client of
    /// HTTP/1.0, which knows no interim responses.
    pub fn open(&self) -> Option<Interim> {
        if !self.0.is_taken.load(Ordering::Relaxed) {
            return None;
        }
        self.0.is_open.store(true, Ordering::Relaxed);
        let request = self.0.request.load(Ordering::Relaxed);
        Some(Interim { shared: Arc::clone(&self.0), request })
    }

    /// A request of this version begins.
    pub(super) fn begin(&self, version: Version) {
        self.turn();
        self.0.is_taken.store(version == Version::HTTP_11, Ordering::Relaxed);
    }

    /// The request's response begins: what comes later comes too late, and so
    /// does what waits still while there is no place for it before the response.
    pub(super) fn close(&self, turns: &Turns) {
        self.turn();
        if !turns.is_between_responses() && self.0.is_waiting.swap(false, Ordering::Relaxed) {
            self.0.queue.lock().text = Vec::new();
        }
    }

    fn turn(&self) {
        // Only this thread writes it.
        let request = self.0.request.load(Ordering::Relaxed).wrapping_add(1);
        self.0.request.store(request, Ordering::Relaxed);
        self.0.is_open.store(false, Ordering::Relaxed);
    }

    /// The other end.
    pub(super) fn writer(&self) -> InterimWriter {
        InterimWriter { shared: Arc::clone(&self.0), text: Vec::new(), written: 0 }
    }
}

/// Writes interim responses before what the HTTP library writes.
#[derive(Debug)]
pub(super) struct InterimWriter {
    shared: Arc<Shared>,
    /// What is being written, and how much of it has been.
    text: Vec<u8>,
    written: usize,
}

impl InterimWriter {
    /// Must be ready before the library's bytes are written.
    pub(super) fn poll_before_write<T: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        turns: &Turns,
    ) -> Poll<io::Result<()>> {
        if self.is_due(turns) {
            ready!(self.poll_write(cx, stream))?;
        }
        turns.writes();
        Poll::Ready(Ok(()))
    }

    /// To be called when the library has nothing left to write.
    pub(super) fn poll_on_flush<T: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        turns: &Turns,
    ) -> Poll<io::Result<()>> {
        turns.has_written();
        if self.shared.is_open.load(Ordering::Relaxed) {
            self.shared.connection.register(cx.waker());
        }
        if self.is_due(turns) { self.poll_write(cx, stream) } else { Poll::Ready(Ok(())) }
    }

    fn is_due(&self, turns: &Turns) -> bool {
        let is_waiting = self.shared.is_waiting.load(Ordering::Relaxed);
        self.written < self.text.len() || (is_waiting && turns.is_between_responses())
    }

    fn poll_write<T: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
    ) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.text.len() {
                let text = &self.text[self.written..];
                match ready!(Pin::new(&mut *stream).poll_write(cx, text))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => self.written += count,
                }
            }
            self.written = 0;
            self.text = Vec::new();
            if !self.shared.is_waiting.swap(false, Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            self.text = std::mem::take(&mut self.shared.queue.lock().text);
        }
    }
}
