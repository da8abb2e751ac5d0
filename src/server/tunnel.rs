//! What a connection, or a stream of HTTP/2, becomes when its protocol changes:
//! bytes, carried both ways until one side has nothing more to say.
//!
//! The service opens a tunnel with an answer that carries its own end of it. The
//! body of that answer lasts as long as the tunnel does, and with it whatever the
//! service holds for the request.

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

use crate::drain::Drain;
use crate::telemetry::TunnelBytes;
use crate::time::monotonic;

/// A tunnel that has been granted.
#[derive(Debug)]
pub(super) struct Tunnel<B> {
    backend: OnUpgrade,
    /// The service wants to know, if it said so.
    carried: Option<TunnelBytes>,
    /// Held while the tunnel lasts.
    _answer: B,
}

impl<B> Tunnel<B> {
    /// Takes the service's end of a tunnel out of an answer that opens one. What
    /// the client is sent has no body.
    pub(super) fn of(response: Response<B>) -> (Response<Told<B>>, Option<Self>) {
        let (mut head, body) = response.into_parts();
        let backend = match head.status {
            StatusCode::SWITCHING_PROTOCOLS => head.extensions.remove::<OnUpgrade>(),
            _ => None,
        };
        match backend {
            Some(backend) => {
                let carried = head.extensions.remove();
                let tunnel = Self { backend, carried, _answer: body };
                (Response::from_parts(head, Told(None)), Some(tunnel))
            }
            None => (Response::from_parts(head, Told(Some(body))), None),
        }
    }

    /// Carries bytes between `client`, of which `early` came already, and the
    /// service's end, until both have ended, or one broke, or none has sent
    /// anything for so long as `patience`, or `drain` is over.
    pub(super) async fn carry<C>(
        self,
        client: C,
        early: Bytes,
        patience: Duration,
        drain: &mut Drain,
    ) where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let Ok(backend) = self.backend.await else { return };
        // When something was last read, from either side.
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
            let deadline = last.get() + patience;
            tokio::select! {
                // However it ended, there is nobody to tell.
                _ = &mut carried => return,
                () = drain.over() => return,
                () = sleep_until(deadline.into()) => {}
            }
            if monotonic() >= last.get() + patience {
                return;
            }
        }
    }
}

/// The body of an answer, unless it stays with a tunnel.
#[derive(Debug)]
pub(super) struct Told<B>(Option<B>);

impl<B: Body + Unpin> Body for Told<B> {
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
