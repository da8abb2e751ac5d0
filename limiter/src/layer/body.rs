//! The body of a response under limits.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use smallvec::SmallVec;
use tollgate_core::decision::Ending;
use tollgate_core::meter::{Meter, Metered, Progress};

use crate::library::Lease;

pin_project! {
    /// The body of a response under limits. It passes the inner body through unchanged, and
    /// holds the lease of the request: units in flight are given back when the body has ended or
    /// is dropped. If a policy reserves units, the body is metered.
    ///
    /// ```
    /// # use tollgate_limiter::LimitedBody;
    /// fn is_body<D: http_body::Body<Data = bytes::Bytes>>() {
    ///     fn check<B: http_body::Body<Data = bytes::Bytes>>() {}
    ///     check::<LimitedBody<D>>();
    /// }
    /// ```
    #[derive(Debug)]
    pub struct LimitedBody<D> {
        #[pin]
        content: Content<D>,
        // None: nothing is open.
        settlement: Option<Box<Settlement>>,
    }
}

pin_project! {
    #[project = ContentProjection]
    #[derive(Debug)]
    enum Content<D> {
        Inner { #[pin] body: D },
        Refusal { bytes: Option<Bytes> },
    }
}

impl<D> LimitedBody<D> {
    /// The response, whose end settles the lease.
    pub(super) fn admitted(response: Response<D>, lease: Lease) -> Response<Self>
    where
        D: Body,
    {
        let settlement = (!lease.is_empty()).then(|| Box::new(Settlement::new(lease, &response)));
        response.map(|body| Self { content: Content::Inner { body }, settlement })
    }

    /// The response to a request that is not admitted.
    pub(super) fn refusal(response: Response<Bytes>) -> Response<Self> {
        response.map(|bytes| {
            let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
            Self { content: Content::Refusal { bytes }, settlement: None }
        })
    }
}

impl<D: Body> Content<D> {
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Inner { body } => body.is_end_stream(),
            Self::Refusal { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Inner { body } => body.size_hint(),
            Self::Refusal { bytes } => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).expect("a length has at most 64 bits"))
            }
        }
    }

    /// Whether all its bytes have been read. A server need not ask for its end then.
    fn is_complete(&self) -> bool {
        self.is_end_stream() || self.size_hint().exact() == Some(0)
    }
}

impl<D: Body<Data = Bytes>> Body for LimitedBody<D> {
    type Data = Bytes;
    type Error = D::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, D::Error>>> {
        let mut this = self.project();
        let polled = match this.content.as_mut().project() {
            ContentProjection::Inner { body } => body.poll_frame(cx),
            ContentProjection::Refusal { bytes } => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(settlement) = this.settlement {
                    settlement.read(frame, this.content.is_complete());
                }
            }
            Poll::Ready(Some(Err(_))) => settle(this.settlement, Progress::Broken),
            Poll::Ready(None) => settle(this.settlement, Progress::Ended),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

/// The open settlement of a request. Dropping it settles the request.
#[derive(Debug)]
struct Settlement {
    /// None after the end.
    lease: Option<Lease>,
    status: StatusCode,
    meters: SmallVec<[Meter; 1]>,
    progress: Progress,
    /// The bytes of the body that are still to come, if the response announces its length.
    left: Option<u64>,
}

impl Settlement {
    fn new<D: Body>(lease: Lease, response: &Response<D>) -> Self {
        let is_empty = response.body().is_end_stream();
        let progress = if is_empty { Progress::Ended } else { Progress::Open };
        let headers = response.headers();
        let meters = lease.begin_meters(headers).collect();
        let left = length(headers);
        Self { lease: Some(lease), status: response.status(), meters, progress, left }
    }

    /// Reads the next frame of the body. `is_last`: no bytes follow it.
    fn read(&mut self, frame: &Frame<Bytes>, is_last: bool) {
        if let Some(data) = frame.data_ref() {
            self.meters.iter_mut().for_each(|meter| meter.observe(data));
            let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
            self.left = self.left.map(|left| left.saturating_sub(bytes));
        }
        // A server of HTTP/1 asks for no more than the announced length.
        if is_last || frame.is_trailers() || self.left == Some(0) {
            self.progress = Progress::Ended;
        }
    }
}

/// The length that a response announces.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Settles a request whose service has failed, as if it had answered with an error.
pub(super) fn fail(lease: Lease) {
    let meters = lease.begin_meters(&HeaderMap::new()).collect();
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let progress = Progress::Ended;
    drop(Settlement { lease: Some(lease), status, meters, progress, left: None });
}

/// Settles the request after its response has come so far.
fn settle(settlement: &mut Option<Box<Settlement>>, progress: Progress) {
    if let Some(mut settlement) = settlement.take() {
        settlement.progress = progress;
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let meters = mem::take(&mut self.meters).into_iter();
        let metered: SmallVec<[Metered; 1]> =
            meters.map(|meter| meter.finish(self.status, self.progress).0).collect();
        lease.end(&Ending { status: Some(self.status), request_bytes: None, metered: &metered });
    }
}
