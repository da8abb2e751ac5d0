//! The body of a response: while it lasts, its request is in flight.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::Patience;
use crate::proxy::endpoint::{Connection, Lease};

/// A response's body on its way to the client. While it lasts, its request is
/// in flight; when it has been read to its end, its connection can serve again.
#[derive(Debug)]
pub struct ResponseBody {
    incoming: Incoming,
    patience: Patience,
    /// Until the end.
    connection: Option<(Lease, Connection)>,
}

/// Why a response stops in its middle. The status has gone out
/// already, so all that is left is to end the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenResponse {
    /// Nothing came for too long.
    #[error("the upstream paused for too long in the middle of its response")]
    Idle,
    /// The connection broke, or what came on it was no HTTP.
    #[error("the upstream's response broke off")]
    Broken,
    /// The whole request has taken as long as its route allows.
    #[error("the request took longer than its route allows")]
    Overdue,
}

impl BrokenResponse {
    /// One word for logs and metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Idle => "upstream_idle",
            Self::Broken => "upstream_broke_off",
            Self::Overdue => "request_timeout",
        }
    }
}

impl ResponseBody {
    pub(in crate::proxy) fn new(
        incoming: Incoming,
        patience: Duration,
        lease: Lease,
        connection: Connection,
    ) -> Self {
        let connection = Some((lease, connection));
        let mut body = Self { incoming, patience: Patience::new(patience), connection };
        if body.incoming.is_end_stream() {
            body.finish();
        }
        body
    }

    /// No body, but a tunnel on the connection: the request is in flight until
    /// this is dropped.
    pub(in crate::proxy) fn of_tunnel(
        incoming: Incoming,
        lease: Lease,
        connection: Connection,
    ) -> Self {
        let patience = Patience::new(Duration::MAX);
        Self { incoming, patience, connection: Some((lease, connection)) }
    }

    fn finish(&mut self) {
        if let Some((lease, connection)) = self.connection.take() {
            lease.end(connection);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenResponse;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenResponse>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            return self.patience.poll_exhausted(cx).map(|()| Some(Err(BrokenResponse::Idle)));
        };
        self.patience.reset();
        if frame.is_none() || self.incoming.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|_| BrokenResponse::Broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
