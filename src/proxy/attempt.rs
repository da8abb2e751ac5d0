//! One attempt of a request at one endpoint: over a kept connection, and over a
//! fresh one if the kept one turns out to be gone.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use http::header::UPGRADE;
use http::{Extensions, HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, timeout_at};

use super::body;
use super::endpoint::{Connection, Endpoint};
use super::settings::RetryCause;
use super::{Expectation, RequestBody};
use crate::message::Failure;
use crate::time::monotonic;

/// An endpoint has answered.
pub(super) struct Answer {
    pub(super) connection: Connection,
    pub(super) response: Response<Incoming>,
    /// The request, if it can be sent once more.
    pub(super) spare: Option<Spare>,
}

/// An endpoint has not answered.
pub(super) struct Missed {
    pub(super) failure: Failure,
    /// The request, if it can be sent once more.
    pub(super) request: Option<Box<Request<RequestBody>>>,
    /// As what a route may name it; none: it is not for routes to decide.
    pub(super) cause: Option<RetryCause>,
    /// Whether the endpoint has certainly processed nothing of it.
    pub(super) is_unsent: bool,
    /// Whether the endpoint closed the connection without any answer, and the
    /// request does no harm twice (RFC 9110, section 9.2.2).
    pub(super) may_be_repeated: bool,
}

impl Missed {
    /// There was an answer, for which the request is not content.
    pub(super) fn given_up(request: Request<RequestBody>) -> Self {
        let failure = Failure::UpstreamClosed;
        let request = Some(Box::new(request));
        Self { failure, request, cause: None, is_unsent: false, may_be_repeated: false }
    }
}

/// Sends `request` to `endpoint`, which has `limit` to answer. If it `may_retry`,
/// it comes back when the endpoint fails.
///
/// A kept connection may have been closed by the other side just now. That must
/// not cost the client an error: the request is sent once more, over a fresh
/// connection, if no byte of it can have been processed, or if processing it
/// twice does no harm (RFC 9110, section 9.2.2).
///
/// A request with `Upgrade` asks for a tunnel; others must have lost that field.
pub(super) async fn attempt(
    endpoint: &Endpoint,
    mut request: Request<RequestBody>,
    limit: Duration,
    may_retry: bool,
) -> Result<Answer, Missed> {
    let is_idempotent = is_idempotent(request.method());
    // It takes its connection away, and needs one of the right version.
    let is_for_tunnel = request.headers().contains_key(UPGRADE);
    if let Some(connection) = endpoint.reuse().filter(|_| !is_for_tunnel) {
        // Over HTTP/2 whatever was refused unread can be sent again.
        let expectation = request.body().expectation();
        let is_held = || expectation.as_ref().is_some_and(Expectation::is_waiting);
        let is_spared = may_retry || is_idempotent || connection.is_http2() || is_held();
        let spare = is_spared.then(|| Spare::of(&request)).flatten();
        let mut failed = match exchange(endpoint, connection, request, limit).await {
            Ok((connection, response)) => return Ok(Answer { connection, response, spare }),
            Err(failed) => failed,
        };
        // Without its body a request is not processed.
        let is_harmless = is_idempotent || is_held();
        let is_stale = failed.is_unread || failed.was_closed && is_harmless;
        let spared = || spare.as_ref().filter(|_| is_stale)?.request();
        request = match failed.unsent.take().map(|unsent| *unsent).or_else(spared) {
            Some(request) => request,
            None => return Err(failed.missed(spare, is_idempotent)),
        };
    }
    // Apart, since it is rare and large: every request would have room for it.
    let connected = match is_for_tunnel {
        true => Box::pin(endpoint.connect_for_tunnel()).await,
        false => Box::pin(endpoint.connect()).await,
    };
    let connection = match connected {
        Ok(connection) => connection,
        Err(failure) => {
            let (request, cause) = (Some(Box::new(request)), Some(RetryCause::Connect));
            let may_be_repeated = false;
            return Err(Missed { failure, request, cause, is_unsent: true, may_be_repeated });
        }
    };
    let is_spared = may_retry || is_idempotent || connection.is_http2();
    let spare = is_spared.then(|| Spare::of(&request)).flatten();
    match exchange(endpoint, connection, request, limit).await {
        Ok((connection, response)) => Ok(Answer { connection, response, spare }),
        Err(failed) => Err(failed.missed(spare, is_idempotent)),
    }
}

/// What a request is made of once more.
#[derive(Debug)]
pub(super) struct Spare {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// Who is told of a 100, if that is waited for.
    extensions: Extensions,
    body: body::Spare,
}

impl Spare {
    /// A copy, if the body allows one.
    fn of(request: &Request<RequestBody>) -> Option<Self> {
        let extensions = request.body().expectation().map(|_| request.extensions().clone());
        Some(Self {
            body: request.body().spare()?,
            extensions: extensions.unwrap_or_default(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            headers: request.headers().clone(),
        })
    }

    /// The request once more, if its body can still be had.
    pub(super) fn request(&self) -> Option<Request<RequestBody>> {
        let mut request = Request::new(self.body.body()?);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request.extensions_mut().clone_from(&self.extensions);
        Some(request)
    }
}

/// RFC 9110, section 9.2.2.
fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE
    )
}

/// Why there is no answer on a connection.
struct Failed {
    failure: Failure,
    /// The request, if no byte of it was sent.
    unsent: Option<Box<Request<RequestBody>>>,
    /// Whether it was sent, and the other side says that it did not look at it.
    is_unread: bool,
    /// Whether the connection ended without any answer.
    was_closed: bool,
}

async fn exchange(
    endpoint: &Endpoint,
    mut connection: Connection,
    mut request: Request<RequestBody>,
    limit: Duration,
) -> Result<(Connection, Response<Incoming>), Failed> {
    connection.prepare(&mut request, endpoint.member());
    let progress = request.body().progress();
    let response = {
        let mut answer = pin!(connection.send(request));
        let mut deadline = Instant::from_std(monotonic() + limit);
        loop {
            if let Ok(answer) = timeout_at(deadline, answer.as_mut()).await {
                break answer.map_err(Failed::of)?;
            }
            // The upstream owes an answer only once it has the whole request.
            match progress.as_ref().map(|progress| progress.deadline(limit)) {
                Some(later) if later > deadline => deadline = later,
                _ => return Err(Failed::TIMEOUT),
            }
        }
    };
    Ok((connection, response))
}

impl Failed {
    const TIMEOUT: Self = Self {
        failure: Failure::UpstreamTimeout,
        unsent: None,
        is_unread: false,
        was_closed: false,
    };

    fn of(mut error: TrySendError<Request<RequestBody>>) -> Self {
        let unsent = error.take_message().map(Box::new);
        let error = error.into_error();
        // The body tells what is wrong with it through the library's error.
        let of_body = source::<Failure>(&error).copied();
        let of_stream = source::<h2::Error>(&error);
        let was_closed = error.is_incomplete_message()
            || error.is_closed()
            || error.is_canceled()
            || is_reset(&error)
            || of_stream.is_some_and(|error| error.is_go_away() || error.is_io());
        let failure = match of_body {
            Some(failure) => failure,
            None if error.is_parse() => Failure::UpstreamInvalid,
            None => Failure::UpstreamClosed,
        };
        // RFC 9113, section 8.7: then nothing of the request was processed.
        let is_unread = of_stream.is_some_and(|error| {
            error.is_remote()
                && error.is_reset()
                && error.reason() == Some(h2::Reason::REFUSED_STREAM)
        });
        Self { failure, unsent, is_unread, was_closed: was_closed && of_body.is_none() }
    }

    /// What the attempt comes to.
    fn missed(self, spare: Option<Spare>, is_idempotent: bool) -> Missed {
        let is_unsent = self.unsent.is_some() || self.is_unread;
        let is_spared = is_unsent || self.was_closed;
        let spare = spare.filter(|_| is_spared).and_then(|spare| spare.request());
        let request = self.unsent.or(spare.map(Box::new));
        let cause = if is_unsent { RetryCause::Connect } else { RetryCause::Reset };
        let cause = request.is_some().then_some(cause);
        let may_be_repeated = self.was_closed && is_idempotent;
        Missed { failure: self.failure, request, cause, is_unsent, may_be_repeated }
    }
}

fn source<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    error.source()?.downcast_ref()
}

/// A connection closed while bytes were still on their way to it is reset.
fn is_reset(error: &hyper::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    source::<std::io::Error>(error)
        .is_some_and(|error| matches!(error.kind(), ConnectionReset | BrokenPipe))
}
