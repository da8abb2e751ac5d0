//! The body of a response, with which its request ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

/// A request of a connection, active until the value is dropped.
pub trait ActiveRequest: Unpin {
    /// The service has given the whole response. Only the client is waited for: one that reads
    /// nothing cannot keep its place in this way.
    fn is_answered(&mut self);

    /// HTTP/2: the client has room for another piece of the response. `given`: the bytes of that
    /// piece, which the client is now to read; None if the service has none yet.
    fn polled(&self, given: Option<usize>);
}

/// The body of a response. Its request is active until the body is dropped.
#[derive(Debug)]
pub struct TrackedBody<B, A>(Option<(B, A)>);

impl<B: Body, A: ActiveRequest> TrackedBody<B, A> {
    pub fn new(body: B, mut active: A) -> Self {
        if body.size_hint().exact().is_some() {
            active.is_answered();
        }
        // The first poll comes when the client has room.
        active.polled(Some(0));
        Self(Some((body, active)))
    }
}

impl<B, A> TrackedBody<B, A> {
    /// Takes the body and its request, and leaves a body that is empty.
    pub fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl<B: Body + Unpin, A: ActiveRequest> Body for TrackedBody<B, A> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Some((body, active)) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        let given = match &polled {
            Poll::Ready(Some(Ok(frame))) => Some(frame.data_ref().map_or(0, Buf::remaining)),
            Poll::Ready(_) => Some(0),
            Poll::Pending => None,
        };
        active.polled(given);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}
