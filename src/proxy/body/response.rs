//! The body of a response: while it lasts, its request is in flight.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::Patience;
use crate::proxy::endpoint::{Connection, Lease};

/// How long the end of a stream may take when the whole body has come.
const MAX_END: Duration = Duration::from_secs(1);

/// A response's body on its way to the client. While it lasts, its request is
/// in flight; when it has been read to its end, its connection can serve again.
#[derive(Debug)]
pub struct ResponseBody {
    /// Until this is dropped.
    incoming: Option<Incoming>,
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
        let (incoming, connection) = (Some(incoming), Some((lease, connection)));
        let mut body = Self { incoming, patience: Patience::new(patience), connection };
        if body.is_end_stream() {
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
        Self { incoming: Some(incoming), patience, connection: Some((lease, connection)) }
    }

    fn finish(&mut self) {
        if let Some((lease, connection)) = self.connection.take() {
            lease.end(connection);
        }
    }
}

impl Drop for ResponseBody {
    /// A client of HTTP/1 has the whole body with its last byte. An endpoint of HTTP/2
    /// may say a moment later that the stream ends; until then, to let go of the stream
    /// is to reset it.
    fn drop(&mut self) {
        let (incoming, connection) = (self.incoming.take(), self.connection.take());
        let whole = incoming.filter(|incoming| incoming.size_hint().exact() == Some(0));
        if let (Some(incoming), Some((_, Connection::Http2(stream)))) = (whole, connection)
            && Handle::try_current().is_ok()
        {
            spawn_local(async move {
                if timeout(MAX_END, incoming.collect()).await.is_ok() {
                    stream.end();
                }
            });
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
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let Poll::Ready(frame) = Pin::new(incoming).poll_frame(cx) else {
            return self.patience.poll_exhausted(cx).map(|()| Some(Err(BrokenResponse::Idle)));
        };
        self.patience.reset();
        if frame.is_none() || self.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|_| BrokenResponse::Broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
