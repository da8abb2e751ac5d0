//! The body of a client's request, and what becomes of the part that the
//! service does not read.
//!
//! A response of HTTP/1 can begin before its request has arrived whole. The rest
//! of the body stands before the next request: either it is read and discarded,
//! or the connection ends and the client is told so (RFC 9112, section 9.6).
//! [`Turns`] decides which.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::turns::Turns;

/// The body of a client's request.
#[derive(Debug)]
pub struct ClientBody {
    /// None: it has been read to its end.
    incoming: Option<Incoming>,
    /// Of HTTP/1: the connection and the number of the request on it.
    request: Option<(Rc<Turns>, u64)>,
}

impl ClientBody {
    /// The body of the request that has just begun.
    pub(super) fn of_http1(incoming: Incoming, turns: &Rc<Turns>) -> Self {
        let request = Some((Rc::clone(turns), turns.request()));
        Self { incoming: Some(incoming), request }
    }

    /// A stream of its own: what is not read stands in no other request's way.
    pub(super) fn of_http2(incoming: Incoming) -> Self {
        Self { incoming: Some(incoming), request: None }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, request } = &mut *self;
        let Some(body) = incoming else {
            return Poll::Ready(None);
        };
        if let Some((turns, request)) = request {
            turns.ask_for_body(*request);
        }
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            *incoming = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|incoming| !incoming.is_end_stream());
        if let (Some(rest), Some((turns, request))) = (rest, &self.request) {
            turns.abandon_body(*request, rest);
        }
    }
}
