//! Tunnels: a connection, or a stream of HTTP/2, whose protocol has changed. Bytes are
//! carried both ways until both sides have ended.
//!
//! The service opens a tunnel with a response that carries its own end. The body of that
//! response is held as long as the tunnel lasts, and with it what the service holds for
//! the request.

use std::cell::Cell;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::time::sleep_until;
use tokio::try_join;
use tokio_util::io::InspectReader;
use tollgate_core::drain::Drain;
use tollgate_core::time::monotonic;

use super::state::tracked_body::TrackedBody;
use crate::telemetry::TunnelBytes;

/// Bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The service's end of a tunnel, in the extensions of the response that opens it. The type of
/// extensions requires that it can be cloned; the first clone that is taken is the end.
#[derive(Clone)]
pub struct TunnelEnd(Arc<Mutex<Option<Backend>>>);

/// A backend, and the bytes that were read from it before.
struct Backend {
    stream: Box<dyn Duplex>,
    early: Bytes,
}

impl fmt::Debug for TunnelEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelEnd").finish_non_exhaustive()
    }
}

impl TunnelEnd {
    /// The end behind `stream`. `early` was read from it before.
    pub fn new<T>(stream: T, early: Bytes) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self(Arc::new(Mutex::new(Some(Backend { stream: Box::new(stream), early }))))
    }
}

/// A tunnel that a response opens.
pub struct Tunnel<B, A> {
    backend: Backend,
    /// Counts the bytes from the backend, if the service asks for that.
    carried: Option<TunnelBytes>,
    /// Held while the tunnel lasts.
    _body: TrackedBody<B, A>,
}

impl<B, A> Tunnel<B, A> {
    /// Takes the service's end out of a response that opens a tunnel, with the body. The client
    /// gets an empty one.
    pub fn of(response: &mut Response<TrackedBody<B, A>>) -> Option<Self> {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return None;
        }
        let TunnelEnd(backend) = response.extensions_mut().remove()?;
        let backend = backend.lock().take()?;
        let carried = response.extensions_mut().remove();
        Some(Self { backend, carried, _body: response.body_mut().take() })
    }

    /// Carries bytes between `client` and the service's end. `early` was read from the
    /// client before. Ends when both sides have ended, one side breaks, neither side
    /// sends anything for `idle_limit`, or the time of `drain` is over.
    pub async fn carry<C>(self, client: C, early: Bytes, idle_limit: Duration, drain: &mut Drain)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let Backend { stream, early: answered } = self.backend;
        // The time of the last read from either side.
        let last = Cell::new(monotonic());
        let mut client = InspectReader::new(client, |_: &[u8]| last.set(monotonic()));
        let count = |bytes: &[u8]| self.carried.iter().for_each(|carried| carried.add(bytes.len()));
        count(&answered);
        let mut backend = InspectReader::new(stream, |bytes: &[u8]| {
            last.set(monotonic());
            count(bytes);
        });
        let mut carried = pin!(async {
            try_join!(backend.write_all(&early), client.write_all(&answered))?;
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
