//! The body of a client's request, and the part of it that the service does not read.
//!
//! An HTTP/1 response can begin before its request has arrived completely. The rest of
//! the body precedes the next request on the connection. So either it is read and
//! discarded, or the connection closes and the response says so (RFC 9112, section 9.6).
//! [`Exchange`] decides which.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::Exchange;
use super::held_body::HeldBody;
use crate::server::syntax::FieldBounds;

/// The body of a client's request.
#[derive(Debug)]
pub struct ClientBody {
    /// The beginning, if it was read before. Boxed, because that is rare.
    held: Option<Box<HeldBody>>,
    /// None: the body was read to its end.
    incoming: Option<Incoming>,
    version: Version,
}

/// What the version of HTTP demands.
#[derive(Debug)]
enum Version {
    /// The state of the connection, and the number of the request.
    Http1(Rc<Exchange>, u64),
    /// The bounds of the trailers.
    Http2(FieldBounds),
}

/// Why the body of a request cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ClientBodyError {
    /// The connection or its framing is at fault.
    #[error(transparent)]
    Library(#[from] hyper::Error),
    /// HTTP/2: the client has reset its stream and named no error (RFC 9113, section 7). The library
    /// takes this for the end of the body.
    #[error("the client has reset its stream before the end of the body")]
    Reset,
    /// HTTP/2: the trailers have more fields or bytes than a head may have.
    #[error("the trailers of the request are too large")]
    LargeTrailers,
}

impl ClientBody {
    /// The body of the HTTP/1 request that has just begun.
    pub fn of_http1(incoming: Incoming, exchange: &Rc<Exchange>) -> Self {
        let version = Version::Http1(Rc::clone(exchange), exchange.request());
        Self { held: None, incoming: Some(incoming), version }
    }

    /// The body of an HTTP/2 request. It has its own stream, so an unread rest blocks no
    /// other request.
    pub fn of_http2(incoming: Incoming, trailers: FieldBounds) -> Self {
        Self { held: None, incoming: Some(incoming), version: Version::Http2(trailers) }
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
    type Error = ClientBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientBodyError>>> {
        let Self { held, incoming, version } = &mut *self;
        if let Some(beginning) = held {
            if let Some(frame) = beginning.next() {
                return Poll::Ready(Some(Ok(frame)));
            }
            *held = None;
        }
        let Some(body) = incoming else {
            return Poll::Ready(None);
        };
        if let Version::Http1(exchange, request) = version {
            exchange.reads_body(*request);
        }
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        let fault = match (version, &frame) {
            (Version::Http2(_), None) if !body.is_end_stream() => Some(ClientBodyError::Reset),
            (Version::Http2(bounds), Some(Ok(frame)))
                if frame.trailers_ref().is_some_and(|it| !bounds.admit(it)) =>
            {
                Some(ClientBodyError::LargeTrailers)
            }
            _ => None,
        };
        if fault.is_some() || matches!(frame, None | Some(Err(_))) {
            *incoming = None;
        }
        Poll::Ready(match fault {
            Some(fault) => Some(Err(fault)),
            None => frame.map(|frame| Ok(frame?)),
        })
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
        if let (Some(rest), Version::Http1(exchange, request)) = (rest, &self.version) {
            exchange.abandon_body(*request, rest);
        }
    }
}
