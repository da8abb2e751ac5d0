//! The body of an upstream's response: while it lasts, its request is in flight.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::body::IdleTimer;
use super::endpoint::{Connection, InFlight};
use crate::message::RESPONSE_TOO_LARGE;

/// How long the end of a stream may take after the whole body has arrived.
const MAX_END: Duration = Duration::from_secs(1);

/// The body of an upstream's response on its way to the client. Three things depend on how it
/// ends: the request is in flight until then, its connection can be used again only after a
/// complete body, and a pause that is too long breaks the body off.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
    idle: IdleTimer,
}

/// Where a body comes from.
#[derive(Debug)]
enum Source {
    /// From the latest response on a connection.
    Connection(InFlight, Connection),
    /// There is none: the connection has become a tunnel, which lasts as long as this value.
    Tunnel { _in_flight: InFlight },
    /// The body has ended.
    Ended,
}

/// Why a response breaks off. Its status has already been sent, so the gateway can
/// only end the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenResponse {
    /// The pause between two frames was too long.
    #[error("the upstream paused for too long in the middle of its response")]
    Idle,
    /// The connection ended, or the upstream broke the HTTP framing.
    #[error("the upstream's response broke off")]
    Broken,
    /// It is larger than its route allows, which was not known before.
    #[error("the upstream's response is larger than its route allows")]
    TooLarge,
    /// The request has taken longer than its route allows.
    #[error("the request took longer than its route allows")]
    Overdue,
}

impl BrokenResponse {
    /// One word for logs and metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Idle => "upstream_idle",
            Self::Broken => "upstream_broke_off",
            Self::TooLarge => RESPONSE_TOO_LARGE,
            Self::Overdue => "request_timeout",
        }
    }
}

impl ResponseBody {
    pub fn new(idle_limit: Duration, in_flight: InFlight, connection: Connection) -> Self {
        let source = Source::Connection(in_flight, connection);
        let mut body = Self { source, idle: IdleTimer::new(idle_limit) };
        if body.is_end_stream() {
            body.finish();
        }
        body
    }

    /// The response has no body but turns its connection into a tunnel. The request
    /// is in flight until this value is dropped.
    pub fn of_tunnel(in_flight: InFlight) -> Self {
        let source = Source::Tunnel { _in_flight: in_flight };
        Self { source, idle: IdleTimer::new(Duration::MAX) }
    }

    fn finish(&mut self) {
        if let Source::Connection(in_flight, connection) =
            mem::replace(&mut self.source, Source::Ended)
        {
            in_flight.end(connection);
        }
    }
}

impl Drop for ResponseBody {
    /// A client of HTTP/1 has the whole body with its last byte. An endpoint of HTTP/2
    /// may end the stream a moment later. Dropping the stream before that would reset
    /// it, so a task waits for its end.
    fn drop(&mut self) {
        if let Source::Connection(_, connection) = mem::replace(&mut self.source, Source::Ended)
            && let Connection::Http2(stream, Some(body)) = connection
            && body.size_hint().exact() == Some(0)
            && Handle::try_current().is_ok()
        {
            spawn_local(async move {
                if timeout(MAX_END, body.collect()).await.is_ok() {
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
        let Source::Connection(_, connection) = &mut self.source else {
            return Poll::Ready(None);
        };
        let Poll::Ready(frame) = Pin::new(connection).poll_frame(cx) else {
            return self.idle.poll_expired(cx).map(|()| Some(Err(BrokenResponse::Idle)));
        };
        if let Some(Err(_)) = frame {
            return Poll::Ready(Some(Err(BrokenResponse::Broken)));
        }
        self.idle.reset();
        if frame.is_none() || self.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|_| BrokenResponse::Broken)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Connection(_, connection) => connection.is_end_stream(),
            Source::Tunnel { .. } | Source::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Connection(_, connection) => connection.size_hint(),
            Source::Tunnel { .. } | Source::Ended => SizeHint::with_exact(0),
        }
    }
}
