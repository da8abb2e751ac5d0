//! Tunnels: a connection, or a stream of HTTP/2, whose protocol has changed. Bytes are
//! carried both ways until both sides have ended.
//!
//! The service opens a tunnel with a response that carries its own end. The body of that
//! response is held as long as the tunnel lasts, and with it what the service holds for
//! the request.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::time::sleep_until;
use tokio_util::io::InspectReader;
use tollgate_limiter::drain::Drain;
use tollgate_limiter::time::monotonic;

use crate::telemetry::TunnelBytes;

/// A tunnel that a response opens.
#[derive(Debug)]
pub(super) struct Tunnel<B> {
    backend: OnUpgrade,
    /// Counts the bytes from the backend, if the service asks for that.
    carried: Option<TunnelBytes>,
    /// Held while the tunnel lasts.
    _body: B,
}

impl<B> Tunnel<B> {
    /// Takes the service's end out of a response that opens a tunnel. The response that
    /// is left for the client has no body.
    pub(super) fn of(response: Response<B>) -> (Response<OptionalBody<B>>, Option<Self>) {
        let (mut head, body) = response.into_parts();
        let backend = match head.status {
            StatusCode::SWITCHING_PROTOCOLS => head.extensions.remove::<OnUpgrade>(),
            _ => None,
        };
        match backend {
            Some(backend) => {
                let carried = head.extensions.remove();
                let tunnel = Self { backend, carried, _body: body };
                (Response::from_parts(head, OptionalBody(None)), Some(tunnel))
            }
            None => (Response::from_parts(head, OptionalBody(Some(body))), None),
        }
    }

    /// Carries bytes between `client` and the service's end. `early` was read from the
    /// client before. Ends when both sides have ended, one side breaks, neither side
    /// sends anything for `idle_limit`, or the time of `drain` is over.
    pub(super) async fn carry<C>(
        self,
        client: C,
        early: Bytes,
        idle_limit: Duration,
        drain: &mut Drain,
    ) where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let Ok(backend) = self.backend.await else { return };
        // The time of the last read from either side.
        let last = Cell::new(monotonic());
        let mut client = InspectReader::new(client, |_: &[u8]| last.set(monotonic()));
        let mut backend = InspectReader::new(TokioIo::new(backend), |bytes: &[u8]| {
            last.set(monotonic());
            self.carried.iter().for_each(|carried| carried.add(bytes.len()));
        });
        let mut carried = pin!(async {
            backend.write_all(&early).await?;
            copy_bidirectional(&mut client, &mut backend).await
        });
        loop {
            let deadline = last.get() + idle_limit;
            tokio::select! {
                // An error cannot be reported to either side.
                _ = &mut carried => return,
                () = drain.over() => return,
                () = sleep_until(deadline.into()) => {}
            }
            if monotonic() >= last.get() + idle_limit {
                return;
            }
        }
    }
}

/// The body of a response; none if the tunnel holds it.
#[derive(Debug)]
pub(super) struct OptionalBody<B>(Option<B>);

impl<B: Body + Unpin> Body for OptionalBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
