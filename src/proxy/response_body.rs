//! The body of an upstream's response: while it lasts, its request is in flight.

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

use super::body::IdleTimer;
use super::endpoint::{Connection, InFlight};

/// How long the end of a stream may take after the whole body has arrived.
const MAX_END: Duration = Duration::from_secs(1);

/// The body of an upstream's response on its way to the client. It wraps the HTTP
/// library's body because three things depend on how the body ends: the request is
/// in flight until then, its connection can be used again only after a complete
/// body, and a pause that is too long breaks the body off.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    /// None only while this value is dropped.
    incoming: Option<Incoming>,
    idle: IdleTimer,
    /// None after the end of the body.
    connection: Option<(InFlight, Connection)>,
}

/// Why a response breaks off. Its status has already been sent, so the gateway can
/// only end the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BrokenResponse {
    /// The pause between two frames was too long.
    #[error("the upstream paused for too long in the middle of its response")]
    Idle,
    /// The connection ended, or the upstream broke the HTTP framing.
    #[error("the upstream's response broke off")]
    Broken,
    /// The request has taken longer than its route allows.
    #[error("the request took longer than its route allows")]
    Overdue,
}

impl BrokenResponse {
    /// One word for logs and metrics.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Idle => "upstream_idle",
            Self::Broken => "upstream_broke_off",
            Self::Overdue => "request_timeout",
        }
    }
}

impl ResponseBody {
    pub(super) fn new(
        incoming: Incoming,
        idle_limit: Duration,
        in_flight: InFlight,
        connection: Connection,
    ) -> Self {
        let (incoming, connection) = (Some(incoming), Some((in_flight, connection)));
        let mut body = Self { incoming, idle: IdleTimer::new(idle_limit), connection };
        if body.is_end_stream() {
            body.finish();
        }
        body
    }

    /// The response has no body but turns its connection into a tunnel. The request
    /// is in flight until this value is dropped.
    pub(super) fn of_tunnel(
        incoming: Incoming,
        in_flight: InFlight,
        connection: Connection,
    ) -> Self {
        let idle = IdleTimer::new(Duration::MAX);
        Self { incoming: Some(incoming), idle, connection: Some((in_flight, connection)) }
    }

    fn finish(&mut self) {
        if let Some((in_flight, connection)) = self.connection.take() {
            in_flight.end(connection);
        }
    }
}

impl Drop for ResponseBody {
    /// A client of HTTP/1 has the whole body with its last byte. An endpoint of HTTP/2
    /// may end the stream a moment later. Dropping the stream before that would reset
    /// it, so a task waits for its end.
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
        let body = &mut *self;
        let Some(incoming) = &mut body.incoming else {
            return Poll::Ready(None);
        };
        let polled = match &body.connection {
            Some((_, connection)) => connection.poll_frame(incoming, cx),
            None => Pin::new(incoming).poll_frame(cx),
        };
        let Poll::Ready(frame) = polled else {
            return self.idle.poll_expired(cx).map(|()| Some(Err(BrokenResponse::Idle)));
        };
        self.idle.reset();
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
