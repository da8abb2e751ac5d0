//! What both versions of HTTP record of a connection: its bytes, the speed of its client, and
//! whether the service has its requests.
//!
//! A timer for each request would cost more than the decision about the request. So a
//! connection has ticks, of which a few come within the shortest limit, and requests only record
//! when something began.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_core::time::monotonic;

use super::pace::Pace;
use super::place::Place;
use crate::server::settings::{Demand, ListenerTimeouts};
use crate::telemetry::Traffic;

/// What both versions of HTTP record of a connection.
#[derive(Debug)]
pub struct Activity {
    /// When the connection began to do what it does.
    since: Cell<Instant>,
    /// The minimum speed of the client, and the speed at which it reads.
    demand: Demand,
    pace: RefCell<Pace>,
    /// Whether the client has closed its sending side.
    is_read_closed: Cell<bool>,
    /// Whether everything that was written is with the system.
    is_flushed: Cell<bool>,
    /// Requests that the service has not answered in full. Counted if there is a place.
    in_service: Cell<usize>,
    watched: Watched,
}

/// What others learn of a connection.
#[derive(Debug, Default)]
pub struct Watched {
    /// Its bytes.
    pub traffic: Traffic,
    /// Its place, which another connection may take. None: none may.
    pub place: Option<Arc<Place>>,
}

impl Activity {
    /// A connection that waits for a request since then.
    pub fn new(since: Instant, demand: Demand, watched: Watched) -> Self {
        Self {
            since: Cell::new(since),
            demand,
            pace: RefCell::default(),
            is_read_closed: Cell::new(false),
            is_flushed: Cell::new(false),
            in_service: Cell::new(0),
            watched,
        }
    }

    /// The bytes of the connection.
    pub const fn traffic(&self) -> &Traffic {
        &self.watched.traffic
    }

    /// The minimum speed of the client, and the speed at which it reads.
    pub const fn demand(&self) -> Demand {
        self.demand
    }

    /// When the connection began to do what it does.
    pub fn since(&self) -> Instant {
        self.since.get()
    }

    /// The connection begins to do something else.
    pub fn restart(&self) {
        self.since.set(monotonic());
    }

    /// Whether the connection has done the same for this time.
    pub fn lasts(&self, limit: Duration) -> bool {
        monotonic().duration_since(self.since.get()) >= limit
    }

    /// Whether the client is too slow in reading.
    pub fn is_slow(&self) -> bool {
        self.pace.borrow().is_late(self.demand, monotonic())
    }

    /// Whether the client has closed its sending side.
    pub fn is_read_closed(&self) -> bool {
        self.is_read_closed.get()
    }

    /// Whether everything that was written is with the system.
    pub fn is_flushed(&self) -> bool {
        self.is_flushed.get()
    }

    /// The service receives a request.
    pub fn enter_service(&self) -> InService {
        if let Some(place) = &self.watched.place {
            self.in_service.set(self.in_service.get() + 1);
            place.is_busy();
        }
        InService(self.watched.place.is_some())
    }

    /// The service has answered a request in full, or the request has ended. If that was the last
    /// one, the place waits since the connection began to do what it does.
    pub fn leave_service(&self, InService(is_counted): &mut InService) {
        self.in_service.set(self.in_service.get() - usize::from(std::mem::take(is_counted)));
        if let (Some(place), 0) = (&self.watched.place, self.in_service.get()) {
            place.waits(self.since.get());
        }
    }

    /// Reads from the client. Returns the number of bytes.
    pub fn poll_read<T: AsyncRead + Unpin>(
        &self,
        stream: &mut T,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let known = buf.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buf))?;
        let count = buf.filled().len() - known;
        self.watched.traffic.received(count);
        if count == 0 && buf.remaining() > 0 {
            self.is_read_closed.set(true);
        }
        Poll::Ready(Ok(count))
    }

    /// Writes to the client.
    pub fn poll_write<T: AsyncWrite + Unpin>(
        &self,
        stream: &mut T,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.record(Pin::new(stream).poll_write(cx, buf))
    }

    /// Writes to the client.
    pub fn poll_write_vectored<T: AsyncWrite + Unpin>(
        &self,
        stream: &mut T,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.record(Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    /// Records the result of a write: the client took bytes, or has no room.
    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_flushed.set(false);
        match &written {
            Poll::Ready(Ok(bytes)) => {
                self.watched.traffic.sent(*bytes);
                self.pace.borrow_mut().moves(*bytes, self.demand);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.pace.borrow_mut().waits(),
        }
        written
    }

    /// Hands what was written to the system. The library does it when it has nothing left to
    /// write.
    pub fn poll_flush<T: AsyncWrite + Unpin>(
        &self,
        stream: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let flushed = Pin::new(stream).poll_flush(cx);
        self.is_flushed.set(matches!(flushed, Poll::Ready(Ok(()))));
        flushed
    }

    /// The period of the ticks: no limit is exceeded by more than a quarter of the
    /// shortest one.
    pub fn interval(timeouts: &ListenerTimeouts) -> Duration {
        timeouts.request_head.min(timeouts.keep_alive).min(timeouts.request_body) / 4
    }
}

/// Whether the service has to answer a request, on a connection with a place.
#[derive(Debug)]
pub struct InService(bool);
