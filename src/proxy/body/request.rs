//! The body of a request: bounded in bytes and in pauses, and remembered where
//! it may have to be sent twice.

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

use super::expect::Held;
use super::replay::{Reader, Recording};
use super::{Expectation, Patience};
use crate::message::{Failure, FieldFilter};
use crate::request::Malformed;
use crate::server::{ClientBody, Demand, Pace};
use crate::time::monotonic;

/// A request's body on its way to an upstream. Its errors are [`Failure`]s that
/// the client is to blame for.
#[derive(Debug)]
pub struct RequestBody(Source);

#[derive(Debug)]
enum Source {
    Empty,
    /// Streams through and is forgotten.
    Direct(Upload),
    /// Streams through and is remembered.
    Recorded(Reader),
}

/// What can be sent in place of a body that was lost on its way.
#[derive(Debug)]
pub(in crate::proxy) enum Spare {
    /// Nothing, as it was.
    Empty,
    /// What was remembered of it, and then what is still to come.
    Recorded(Rc<Recording>),
}

impl Spare {
    /// The body once more, from its beginning; none if too much has gone by.
    /// Whoever still reads the lost one gets no more of it.
    pub(in crate::proxy) fn body(&self) -> Option<RequestBody> {
        match self {
            Self::Empty => Some(RequestBody::EMPTY),
            Self::Recorded(recording) => {
                Reader::again(recording).map(|reader| RequestBody(Source::Recorded(reader)))
            }
        }
    }
}

/// What comes from the client.
#[derive(Debug)]
pub(super) struct Upload {
    incoming: ClientBody,
    /// Bytes that may still come.
    allowance: u64,
    patience: Patience,
    demand: Demand,
    /// How fast the client is, if it has announced how much it sends. In another
    /// body there may be nothing to send for a while.
    pace: Option<Pace>,
    progress: Rc<Progress>,
    /// Which of its trailers are passed on.
    filter: Arc<FieldFilter>,
    /// The client waits until it is asked for it.
    held: Option<Held>,
}

/// How an upload is getting on: how much came, who keeps it waiting, and since
/// when. While it is the client, the upstream cannot be late with its answer.
#[derive(Debug)]
pub struct Progress {
    bytes: Cell<u64>,
    waits_for_client: Cell<bool>,
    since: Cell<Instant>,
    /// Why the rest of it will never come.
    fault: Cell<Option<Failure>>,
}

impl Progress {
    /// Bytes of the body that came so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Why the rest of the body will never come: what the client did.
    pub(in crate::proxy) fn fault(&self) -> Option<Failure> {
        self.fault.get()
    }

    fn mark(&self, waits_for_client: bool) {
        self.waits_for_client.set(waits_for_client);
        self.since.set(Instant::from_std(monotonic()));
    }

    /// When the upstream will have been silent for `limit`, as things stand.
    pub(in crate::proxy) fn deadline(&self, limit: Duration) -> Instant {
        let now = Instant::from_std(monotonic());
        (if self.waits_for_client.get() { now } else { self.since.get() }) + limit
    }
}

impl RequestBody {
    /// No body.
    pub const EMPTY: Self = Self(Source::Empty);

    /// The body `incoming`, of at most `max_bytes`, which comes as fast as `demand`
    /// says. Its trailers pass `filter`.
    ///
    /// # Errors
    /// If the body is announced to be larger.
    pub fn new(
        incoming: ClientBody,
        max_bytes: Option<u64>,
        demand: Demand,
        filter: &Arc<FieldFilter>,
    ) -> Result<Self, Failure> {
        if incoming.is_end_stream() {
            return Ok(Self::EMPTY);
        }
        let allowance = max_bytes.unwrap_or(u64::MAX);
        if incoming.size_hint().lower() > allowance {
            return Err(Failure::BodyTooLarge);
        }
        let patience = Patience::new(demand.patience);
        let pace = incoming.size_hint().exact().map(|_| Pace::default());
        let since = Cell::new(Instant::from_std(monotonic()));
        let (bytes, waits_for_client) = (Cell::new(0), Cell::new(false));
        let fault = Cell::new(None);
        let progress = Rc::new(Progress { bytes, waits_for_client, since, fault });
        let (filter, held) = (Arc::clone(filter), None);
        let upload = Upload { incoming, allowance, patience, demand, pace, progress, filter, held };
        Ok(Self(Source::Direct(upload)))
    }

    /// How the upload is getting on; nothing if there is none.
    pub fn progress(&self) -> Option<Rc<Progress>> {
        match &self.0 {
            Source::Empty => None,
            Source::Direct(upload) => Some(Rc::clone(&upload.progress)),
            Source::Recorded(reader) => Some(reader.upload(|it| Rc::clone(&it.progress))),
        }
    }

    /// The same body, which is not read before this expectation is met. It is
    /// remembered: while it is not begun the request can be sent again.
    #[must_use]
    pub fn held_until(self, expectation: &Expectation) -> Self {
        match self.0 {
            Source::Direct(mut upload) => {
                upload.held = Some(Held::until(expectation.clone()));
                Self(Source::Direct(upload)).recorded()
            }
            Source::Empty | Source::Recorded(_) => self,
        }
    }

    /// What must be met before it is read; nothing if it can be read at any time.
    pub(in crate::proxy) fn expectation(&self) -> Option<Expectation> {
        let of = |upload: &Upload| upload.held.as_ref().map(|held| held.expectation().clone());
        match &self.0 {
            Source::Empty => None,
            Source::Direct(upload) => of(upload),
            Source::Recorded(reader) => reader.upload(of),
        }
    }

    /// The body ends here, and this is why.
    pub(in crate::proxy) fn give_up(&self, fault: Failure) {
        if let Some(progress) = self.progress() {
            progress.fault.set(Some(fault));
        }
    }

    /// The same body, remembered from now on up to a bound.
    pub(in crate::proxy) fn recorded(self) -> Self {
        match self.0 {
            Source::Direct(upload) => Self(Source::Recorded(Reader::record(upload))),
            Source::Empty | Source::Recorded(_) => self,
        }
    }

    /// What can be sent in its place, if it is empty or remembered.
    pub(in crate::proxy) fn spare(&self) -> Option<Spare> {
        match &self.0 {
            Source::Empty => Some(Spare::Empty),
            Source::Direct(_) => None,
            Source::Recorded(reader) => Some(Spare::Recorded(reader.recording())),
        }
    }
}

impl Upload {
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let polled = self.poll_piece(cx);
        if let Poll::Ready(Some(Err(failure))) = &polled {
            // The HTTP/2 library does not say why it has reset a stream.
            self.progress.fault.set(Some(*failure));
        }
        polled
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(held) = &mut self.held
            && held.poll_met(cx).is_pending()
        {
            // The upstream cannot be late while it has not been sent everything.
            self.progress.mark(true);
            return Poll::Pending;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            self.progress.mark(true);
            self.pace.iter_mut().for_each(Pace::waits);
            return self.patience.poll_exhausted(cx).map(|()| Some(Err(Failure::BodyTimeout)));
        };
        self.patience.reset();
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
            Ok(self.filter.piece(frame))
        }))
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match &mut self.0 {
            Source::Empty => Poll::Ready(None),
            Source::Direct(upload) => upload.poll_frame(cx),
            Source::Recorded(reader) => reader.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Empty => true,
            Source::Direct(upload) => upload.is_end_stream(),
            Source::Recorded(reader) => reader.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Empty => SizeHint::with_exact(0),
            Source::Direct(upload) => upload.size_hint(),
            Source::Recorded(reader) => reader.size_hint(),
        }
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
