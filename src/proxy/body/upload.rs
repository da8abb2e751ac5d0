//! A request's body as it arrives from the client: bounded in bytes, in pauses and
//! in slowness.

use std::cell::Cell;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tollgate_core::request::Malformed;
use tollgate_core::time::monotonic;

use super::expect::{BodyGate, Expectation};
use super::gather::Gatherer;
use super::idle::IdleTimer;
use super::tap::Tap;
use crate::message::{Failure, FieldFilter};
use crate::server::{ClientBody, ClientBodyError, Demand, Pace};

/// A request's body as it arrives from the client.
#[derive(Debug)]
pub struct Upload {
    incoming: ClientBody,
    /// Bytes that may still arrive.
    allowance: u64,
    idle: IdleTimer,
    demand: Demand,
    /// How fast the client sends. Measured only if the client has announced the
    /// length: in other bodies there may be nothing to send for a while.
    pace: Option<Pace>,
    progress: Rc<Progress>,
    /// Decides which trailers are passed on.
    filter: Arc<FieldFilter>,
    /// Set if the client waits for `100 Continue`.
    gate: Option<BodyGate>,
    /// Set if the body is copied.
    tap: Option<Box<Tap>>,
    /// Set if small pieces are joined.
    gatherer: Option<Box<Gatherer>>,
}

/// The progress of an upload: how many bytes have arrived, and which side keeps the
/// other waiting, and since when. While the gateway waits for the client, the upstream
/// cannot be late with its response.
#[derive(Debug)]
pub struct Progress {
    bytes: Cell<u64>,
    waits_for_client: Cell<bool>,
    since: Cell<Instant>,
    /// Why the rest of the body will never arrive.
    fault: Cell<Option<Failure>>,
}

impl Progress {
    /// Bytes of the body that have arrived so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The client's fault for which the rest of the body will never arrive.
    pub fn fault(&self) -> Option<Failure> {
        self.fault.get()
    }

    fn mark(&self, waits_for_client: bool) {
        self.waits_for_client.set(waits_for_client);
        self.since.set(Instant::from_std(monotonic()));
    }

    /// When the upstream will have been silent for `limit`, judged by the present
    /// state.
    pub fn deadline(&self, limit: Duration) -> Instant {
        let now = Instant::from_std(monotonic());
        (if self.waits_for_client.get() { now } else { self.since.get() }) + limit
    }

    /// Records why the rest of the body will never arrive.
    pub fn fail(&self, fault: Failure) {
        self.fault.set(Some(fault));
    }
}

impl Upload {
    /// The body `incoming`. At most `max_bytes` of it are read, and the client must
    /// send as fast as `demand` says. Trailers pass `filter`.
    ///
    /// # Errors
    /// If the announced length exceeds `max_bytes`.
    pub fn new(
        incoming: ClientBody,
        max_bytes: Option<u64>,
        demand: Demand,
        filter: &Arc<FieldFilter>,
    ) -> Result<Self, Failure> {
        let allowance = max_bytes.unwrap_or(u64::MAX);
        if incoming.size_hint().lower() > allowance {
            return Err(Failure::BodyTooLarge);
        }
        Ok(Self {
            allowance,
            idle: IdleTimer::new(demand.patience),
            demand,
            pace: incoming.size_hint().exact().map(|_| Pace::default()),
            progress: Rc::new(Progress {
                bytes: Cell::new(0),
                waits_for_client: Cell::new(false),
                since: Cell::new(Instant::from_std(monotonic())),
                fault: Cell::new(None),
            }),
            filter: Arc::clone(filter),
            gate: None,
            tap: None,
            gatherer: None,
            incoming,
        })
    }

    /// The body is not read before `expectation` is met.
    pub fn hold_until(&mut self, expectation: &Expectation) {
        self.gate = Some(BodyGate::new(expectation.clone()));
    }

    /// The expectation that must be met before the body is read.
    pub fn expectation(&self) -> Option<Expectation> {
        self.gate.as_ref().map(|gate| gate.expectation().clone())
    }

    /// Joins the small pieces of a body without a length, as that of a client that sends chunks. The
    /// pieces of another body are what the client's connection has brought in one read.
    pub fn gather(&mut self) {
        self.gatherer = self.pace.is_none().then(Box::default);
    }

    /// Copies the body while it passes.
    pub fn tap(&mut self, tap: Tap) {
        self.tap = Some(Box::new(tap));
    }

    pub fn progress(&self) -> &Rc<Progress> {
        &self.progress
    }

    pub fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let polled = match self.gatherer.take() {
            None => self.poll_incoming(cx),
            Some(mut gatherer) => {
                let polled = gatherer.poll(cx, |cx| self.poll_incoming(cx));
                self.gatherer = Some(gatherer);
                // What was held goes to the upstream although the client has sent nothing more.
                if polled.is_ready() {
                    self.progress.mark(false);
                }
                polled
            }
        };
        if let Poll::Ready(Some(Err(failure))) = &polled {
            // The HTTP/2 library does not report why it has reset a stream.
            self.progress.fail(*failure);
        }
        // The upstream need not read on after the announced length. Over HTTP/2 the end of the stream
        // may come after it.
        let is_at_end = self.is_end_stream() || self.size_hint().exact() == Some(0);
        if let Some(tap) = &mut self.tap
            && let Poll::Ready(next) = &polled
        {
            // The last frame need not be followed by another call.
            let is_last = match next {
                Some(Ok(frame)) => {
                    frame.data_ref().into_iter().for_each(|bytes| tap.passes(bytes));
                    frame.is_trailers() || is_at_end
                }
                Some(Err(_)) => false,
                None => true,
            };
            if is_last {
                tap.ends();
            }
        }
        polled
    }

    fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(gate) = &mut self.gate
            && gate.poll_open(cx).is_pending()
        {
            // The upstream cannot be late before it has received the whole request.
            self.progress.mark(true);
            return Poll::Pending;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            self.progress.mark(true);
            self.pace.iter_mut().for_each(Pace::waits);
            return self.idle.poll_expired(cx).map(|()| Some(Err(Failure::BodyTimeout)));
        };
        self.idle.reset();
        self.progress.mark(false);
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(|error| fault_of(&error))?;
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            if let Some(pace) = &mut self.pace {
                pace.moves(bytes, self.demand);
                if pace.is_too_slow() {
                    return Err(Failure::BodyTimeout);
                }
            }
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.progress.bytes.set(self.progress.bytes.get().saturating_add(bytes));
            self.allowance = self.allowance.checked_sub(bytes).ok_or(Failure::BodyTooLarge)?;
            Ok(self.filter.frame(frame))
        }))
    }

    /// The part that has not been read.
    pub fn into_incoming(self) -> ClientBody {
        self.incoming
    }

    pub fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream() && self.gatherer.as_ref().is_none_or(|held| held.is_empty())
    }

    pub fn size_hint(&self) -> SizeHint {
        match &self.gatherer {
            None => self.incoming.size_hint(),
            Some(_) => SizeHint::new(),
        }
    }
}

/// Why a body cannot be read to its end. The guard of the client's connection reports
/// what was malformed through the library's error.
fn fault_of(error: &ClientBodyError) -> Failure {
    error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|source| source.downcast_ref::<Malformed>())
        .map_or(Failure::BodyBroken, |malformed| Failure::Malformed(*malformed))
}
