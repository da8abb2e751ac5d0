//! Bodies on their way through. They stream with back-pressure, and hold what
//! must last as long as they do.

use std::cell::Cell;
use std::error::Error as _;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::endpoint::{Connection, Lease};
use crate::message::Failure;
use crate::request::Malformed;
use crate::time::monotonic;

/// A limit on the pause between two pieces of a body. The timer is made only
/// when a piece has to be waited for, so a body that is all there costs none.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer was set for the present pause.
    running: bool,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, timer: None, running: false }
    }

    /// A piece has come.
    fn reset(&mut self) {
        self.running = false;
    }

    /// Ready when the present pause has been too long.
    fn poll_exhausted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = match &mut self.timer {
            Some(timer) if self.running => timer,
            Some(timer) => {
                timer.as_mut().reset(Instant::from_std(monotonic() + self.limit));
                timer
            }
            none => none.insert(Box::pin(sleep_until(Instant::from_std(monotonic() + self.limit)))),
        };
        self.running = true;
        timer.as_mut().poll(cx)
    }
}

/// A request's body on its way to an upstream. Its errors are [`Failure`]s that
/// the client is to blame for.
#[derive(Debug)]
pub struct RequestBody(Option<Upload>);

#[derive(Debug)]
struct Upload {
    incoming: Incoming,
    /// Bytes that may still come.
    allowance: u64,
    patience: Patience,
    progress: Rc<Progress>,
}

/// How an upload is getting on: how much came, who keeps it waiting, and since
/// when. While it is the client, the upstream cannot be late with its answer.
#[derive(Debug)]
pub struct Progress {
    bytes: Cell<u64>,
    waits_for_client: Cell<bool>,
    since: Cell<Instant>,
}

impl Progress {
    /// Bytes of the body that came so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn mark(&self, waits_for_client: bool) {
        self.waits_for_client.set(waits_for_client);
        self.since.set(Instant::from_std(monotonic()));
    }

    /// When the upstream will have been silent for `limit`, as things stand.
    pub(super) fn deadline(&self, limit: Duration) -> Instant {
        let now = Instant::from_std(monotonic());
        (if self.waits_for_client.get() { now } else { self.since.get() }) + limit
    }
}

impl RequestBody {
    /// No body.
    pub const EMPTY: Self = Self(None);

    /// The body `incoming`, of at most `max_bytes`, in which no pause is longer
    /// than `patience`.
    ///
    /// # Errors
    /// If the body is announced to be larger.
    pub fn new(
        incoming: Incoming,
        max_bytes: Option<u64>,
        patience: Duration,
    ) -> Result<Self, Failure> {
        if incoming.is_end_stream() {
            return Ok(Self::EMPTY);
        }
        let allowance = max_bytes.unwrap_or(u64::MAX);
        if incoming.size_hint().lower() > allowance {
            return Err(Failure::BodyTooLarge);
        }
        let patience = Patience::new(patience);
        let since = Cell::new(Instant::from_std(monotonic()));
        let (bytes, waits_for_client) = (Cell::new(0), Cell::new(false));
        let progress = Rc::new(Progress { bytes, waits_for_client, since });
        Ok(Self(Some(Upload { incoming, allowance, patience, progress })))
    }

    /// How the upload is getting on; nothing if there is none.
    pub fn progress(&self) -> Option<Rc<Progress>> {
        self.0.as_ref().map(|upload| Rc::clone(&upload.progress))
    }

    /// Whether there is no body, so that the request can be sent once more.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let Some(upload) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let Poll::Ready(frame) = Pin::new(&mut upload.incoming).poll_frame(cx) else {
            upload.progress.mark(true);
            return upload.patience.poll_exhausted(cx).map(|()| Some(Err(Failure::BodyTimeout)));
        };
        upload.patience.reset();
        upload.progress.mark(false);
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(|error| fault_of(&error))?;
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            upload.progress.bytes.set(upload.progress.bytes.get().saturating_add(bytes));
            upload.allowance = upload.allowance.checked_sub(bytes).ok_or(Failure::BodyTooLarge)?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|upload| upload.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), |upload| upload.incoming.size_hint())
    }
}

/// Why a body cannot be read to its end: the guard of its connection tells what
/// was malformed, through the library's error.
fn fault_of(error: &hyper::Error) -> Failure {
    error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|source| source.downcast_ref::<Malformed>())
        .map_or(Failure::BodyBroken, |malformed| Failure::Malformed(*malformed))
}

/// A response's body on its way to the client. While it lasts, its request is
/// in flight; when it has been read to its end, its connection can serve again.
#[derive(Debug)]
pub struct ResponseBody {
    incoming: Incoming,
    patience: Patience,
    /// Until the end.
    connection: Option<(Lease, Connection)>,
}

/// An upstream stopped in the middle of a response. The status has gone out
/// already, so all that is left is to end the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenResponse {
    /// Nothing came for too long.
    #[error("the upstream paused for too long in the middle of its response")]
    Idle,
    /// The connection broke, or what came on it was no HTTP.
    #[error("the upstream's response broke off")]
    Broken,
}

impl ResponseBody {
    pub(super) fn new(
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
