//! Interim responses: what a backend sends before its final response, such as 103 Early
//! Hints (RFC 9110, section 15.2; RFC 8297).
//!
//! The HTTP library supports only final responses. So interim ones are written beside it,
//! at moments when no other response is partly written.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use http::header::{CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};
use tokio::io::AsyncWrite;

use super::exchange::Exchange;
use super::progress::Progress as _;
use crate::message::{strip_hop_by_hop, write_field};

/// The most interim responses that are passed on for one request.
const MAX_RESPONSES: usize = 16;
/// The most bytes of all of them together.
const MAX_BYTES: usize = 16 * 1024;

/// Sends interim responses to the client of one request.
#[derive(Clone, Debug)]
pub struct Interim {
    shared: Rc<Shared>,
    /// The number of the request on its connection.
    request: u64,
}

/// What the sending side and the writing side share.
#[derive(Debug, Default)]
struct Shared {
    /// The current request. Responses for other requests are not written.
    request: Cell<u64>,
    /// Whether its client supports interim responses.
    is_taken: Cell<bool>,
    /// Whether an [`Interim`] exists for it.
    is_open: Cell<bool>,
    /// Whether the queue holds anything.
    is_waiting: Cell<bool>,
    /// Wakes the connection.
    connection: RefCell<Option<Waker>>,
    queue: RefCell<Queue>,
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
    /// Writes a response with this status and these fields to the client as soon as
    /// possible. More than 16 responses for one request, or 16 KiB, are dropped.
    ///
    /// 100 is not passed on: the gateway itself requests the body from the client.
    pub fn send(&self, status: StatusCode, fields: &HeaderMap) {
        if !matches!(status.as_u16(), 102..=199) {
            return;
        }
        let text = head(status, fields);
        if self.shared.request.get() != self.request {
            return;
        }
        let mut queue = self.shared.queue.borrow_mut();
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
        self.shared.is_waiting.set(true);
        if let Some(waker) = self.shared.connection.take() {
            waker.wake();
        }
    }
}

/// The head of an interim response as it is written.
fn head(status: StatusCode, fields: &HeaderMap) -> Vec<u8> {
    let mut fields = fields.clone();
    strip_hop_by_hop(&mut fields);
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER] {
        fields.remove(name);
    }
    let reason = status.canonical_reason().unwrap_or("Interim");
    let mut text = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    for (name, value) in &fields {
        write_field(name.as_str(), value.as_bytes(), &mut text);
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// The interim responses of one connection.
#[derive(Clone, Debug, Default)]
pub struct InterimQueue(Rc<Shared>);

impl InterimQueue {
    /// Sends to the client of the current request. None for HTTP/1.0, which has no interim
    /// responses.
    pub fn open(&self) -> Option<Interim> {
        if !self.0.is_taken.get() {
            return None;
        }
        self.0.is_open.set(true);
        let request = self.0.request.get();
        Some(Interim { shared: Rc::clone(&self.0), request })
    }

    /// A request of this version begins.
    pub fn begin(&self, version: Version) {
        self.advance();
        self.0.is_taken.set(version == Version::HTTP_11);
    }

    /// The final response begins. Later interim responses are dropped, and so are queued
    /// ones if they can no longer be written before it.
    pub fn close(&self, exchange: &Exchange) {
        self.advance();
        if !exchange.is_between_responses() && self.0.is_waiting.replace(false) {
            self.0.queue.borrow_mut().text = Vec::new();
        }
    }

    fn advance(&self) {
        self.0.request.set(self.0.request.get().wrapping_add(1));
        self.0.is_open.set(false);
    }

    /// The writing side.
    pub fn writer(&self) -> InterimWriter {
        InterimWriter { shared: Rc::clone(&self.0), text: Vec::new(), written: 0 }
    }
}

/// Writes interim responses between the bytes of the HTTP library.
#[derive(Debug)]
pub struct InterimWriter {
    shared: Rc<Shared>,
    /// The bytes that are being written, and how many of them were written.
    text: Vec<u8>,
    written: usize,
}

impl InterimWriter {
    /// Must return ready before bytes of the library are written.
    pub fn poll_before_write<T: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        exchange: &Exchange,
    ) -> Poll<io::Result<()>> {
        if self.is_due(exchange) {
            ready!(self.poll_write(cx, stream, exchange))?;
        }
        exchange.on_write();
        Poll::Ready(Ok(()))
    }

    /// To be called when the library flushes: it has nothing left to write.
    pub fn poll_on_flush<T: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        exchange: &Exchange,
    ) -> Poll<io::Result<()>> {
        exchange.on_flush();
        if self.shared.is_open.get() {
            let waker = &mut *self.shared.connection.borrow_mut();
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        if self.is_due(exchange) {
            self.poll_write(cx, stream, exchange)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    fn is_due(&self, exchange: &Exchange) -> bool {
        let is_waiting = self.shared.is_waiting.get();
        self.written < self.text.len() || (is_waiting && exchange.is_between_responses())
    }

    fn poll_write<T: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut T,
        exchange: &Exchange,
    ) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.text.len() {
                let text = &self.text[self.written..];
                match ready!(exchange.activity().poll_write(stream, cx, text))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => self.written += count,
                }
            }
            self.written = 0;
            self.text = Vec::new();
            if !self.shared.is_waiting.replace(false) {
                return Poll::Ready(Ok(()));
            }
            self.text = std::mem::take(&mut self.shared.queue.borrow_mut().text);
        }
    }
}
