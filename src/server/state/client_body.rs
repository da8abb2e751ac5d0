//! The body of a client's request, and the part of it that the service does not read.
//!
//! An HTTP/1 response can begin before its request has arrived completely. The rest of
//! the body precedes the next request on the connection. So either it is read and
//! discarded, or the connection closes and the response says so (RFC 9112, section 9.6).
//! [`Exchange`] decides which.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::Exchange;
use super::held_body::HeldBody;

/// The body of a client's request.
#[derive(Debug)]
pub struct ClientBody {
    /// The beginning, if it was read before. Boxed, because that is rare.
    held: Option<Box<HeldBody>>,
    /// None: the body was read to its end.
    incoming: Option<Incoming>,
    /// HTTP/1: the state of the connection, and the number of the request.
    request: Option<(Rc<Exchange>, u64)>,
    /// Whether the last frame is missing.
    is_cut_off: bool,
}

impl ClientBody {
    /// The body of the HTTP/1 request that has just begun.
    pub fn of_http1(incoming: Incoming, exchange: &Rc<Exchange>) -> Self {
        let request = Some((Rc::clone(exchange), exchange.request()));
        Self { held: None, incoming: Some(incoming), request, is_cut_off: false }
    }

    /// The body of an HTTP/2 request. It has its own stream, so an unread rest blocks no
    /// other request.
    pub fn of_http2(incoming: Incoming) -> Self {
        Self { held: None, incoming: Some(incoming), request: None, is_cut_off: false }
    }

    /// Whether the body was read to an end that the client has not sent. A client of HTTP/2 may
    /// reset its stream without an error (RFC 9113, section 7), which the library takes for the
    /// end.
    pub const fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The same body, of which this beginning was read.
    pub fn beginning_with(mut self, held: HeldBody) -> Self {
        self.held = Some(Box::new(held));
        self
    }

    /// Replaces a part of the beginning that was read. None of it must have been forwarded. Returns
    /// the length of the beginning then, or none if none was read.
    pub fn replace(&mut self, range: &Range<u64>, text: &'static [u8]) -> Option<u64> {
        let held = self.held.as_deref_mut()?;
        held.replace(range, text);
        Some(held.bytes())
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { held, incoming, request, is_cut_off } = &mut *self;
        if let Some(beginning) = held {
            if let Some(frame) = beginning.next() {
                return Poll::Ready(Some(Ok(frame)));
            }
            *held = None;
        }
        let Some(body) = incoming else {
            return Poll::Ready(None);
        };
        if let Some((exchange, request)) = request {
            exchange.reads_body(*request);
        }
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let is_http2 = request.is_none();
        *is_cut_off = is_http2 && matches!(polled, Poll::Ready(None)) && !body.is_end_stream();
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            *incoming = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.is_empty())
            && self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.incoming.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        self.held.as_ref().map_or(rest, |held| held.size_hint(&rest))
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|incoming| !incoming.is_end_stream());
        if let (Some(rest), Some((exchange, request))) = (rest, &self.request) {
            exchange.abandon_body(*request, rest);
        }
    }
}
