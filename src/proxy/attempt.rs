//! One attempt of a request at one endpoint: over a kept connection, and over a
//! fresh one if the kept one turns out to be gone.

use std::pin::pin;
use std::time::Duration;

use http::header::{HeaderName, UPGRADE};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::body;
use super::course::Course;
use super::endpoint::{Connection, Endpoint, Unanswered};
use super::fault::Fault;
use super::settings::RetryCause;
use super::{Expectation, RequestBody};
use crate::time::monotonic;

/// A head of so many bytes is taken by every server that is known; a larger one may
/// be answered by the end of the connection.
const COMMON_HEAD_BYTES: usize = 8_000;
/// Connections that one request may find gone before anything was sent on them.
const MAX_GONE: u32 = 4;

/// An endpoint has answered.
pub(super) struct Answer {
    pub(super) connection: Connection,
    pub(super) response: Response<Incoming>,
    /// The request, if it can be sent once more.
    pub(super) spare: Option<Spare>,
}

/// An endpoint has not answered.
pub(super) struct Missed {
    pub(super) fault: Fault,
    /// The request, if it can be sent once more.
    pub(super) request: Option<Box<Request<RequestBody>>>,
    pub(super) reach: Reach,
    /// Whether it does no harm twice (RFC 9110, section 9.2.2).
    pub(super) is_idempotent: bool,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// No byte of it was sent.
    Unsent,
    /// The endpoint says that it has processed nothing of it.
    Unprocessed,
    /// The connection ended without an answer.
    Unanswered,
    /// There was an answer, or one may come yet.
    Answered,
}

impl Reach {
    fn of(fault: Fault, is_unsent: bool) -> Self {
        match fault {
            _ if is_unsent => Self::Unsent,
            Fault::Unprocessed => Self::Unprocessed,
            Fault::Closed | Fault::ClosedWithOthers | Fault::Internal => Self::Unanswered,
            _ => Self::Answered,
        }
    }

    /// As what a route may name it; none: it is not for routes to decide.
    pub(super) fn cause(self) -> Option<RetryCause> {
        match self {
            Self::Unsent | Self::Unprocessed => Some(RetryCause::Connect),
            Self::Unanswered => Some(RetryCause::Reset),
            Self::Answered => None,
        }
    }
}

impl Missed {
    /// There was an answer, for which the request is not content.
    pub(super) fn given_up(request: Request<RequestBody>) -> Self {
        let (fault, reach) = (Fault::Closed, Reach::Answered);
        Self { fault, request: Some(Box::new(request)), reach, is_idempotent: true }
    }
}

/// Sends `request` to `endpoint`, which has `limit` to answer. If it may be sent
/// once more, it comes back when the endpoint fails.
///
/// A kept connection may have been closed by the other side just now. That must
/// not cost the client an error: the request is sent over a fresh connection, if
/// nothing of it was sent, or if it does no harm twice.
///
/// A request with `Upgrade` asks for a tunnel; others must have lost that field.
pub(super) async fn attempt(
    endpoint: &Endpoint,
    mut request: Request<RequestBody>,
    limit: Duration,
    course: &mut Course<'_>,
) -> Result<Answer, Missed> {
    let is_idempotent = is_idempotent(request.method());
    // It takes its connection away, and needs one of the right version.
    let is_for_tunnel = request.headers().contains_key(UPGRADE);
    let mut kept = endpoint.reuse().filter(|_| !is_for_tunnel);
    let mut gone = 0;
    loop {
        let is_kept = kept.is_some();
        let connected = match kept.take() {
            Some(connection) => Ok(connection),
            // Apart, since it is rare and large: every request would have room for it.
            None if is_for_tunnel => Box::pin(endpoint.connect_for_tunnel()).await,
            None => Box::pin(endpoint.connect()).await,
        };
        let connection = match connected {
            Ok(connection) => connection,
            Err(fault) => {
                let (request, reach) = (Some(Box::new(request)), Reach::Unsent);
                return Err(Missed { fault, request, reach, is_idempotent });
            }
        };
        // Over HTTP/2 whatever was not processed can be sent again.
        let is_http2 = connection.is_http2();
        if course.may_retry() || is_http2 {
            request = request.map(RequestBody::recorded);
        }
        let expectation = request.body().expectation();
        let is_held = || expectation.as_ref().is_some_and(Expectation::is_waiting);
        let is_spared = course.may_retry() || is_http2 || is_idempotent || is_held();
        let spare = is_spared.then(|| Spare::of(&request)).flatten();
        let mut missed = match exchange(endpoint, connection, request, limit).await {
            Ok((connection, response)) => return Ok(Answer { connection, response, spare }),
            Err(failed) => failed.missed(spare, is_idempotent),
        };
        if is_for_tunnel {
            missed.fault = missed.fault.of_handshake();
        }
        let is_again = match missed.reach {
            Reach::Unsent => gone < MAX_GONE,
            // Without its body a request is not processed.
            Reach::Unanswered => is_kept && (is_idempotent || is_held()),
            Reach::Unprocessed | Reach::Answered => false,
        };
        let is_free = missed.reach == Reach::Unsent;
        request = match missed.request {
            Some(request) if is_again && (is_free || course.take_repetition()) => *request,
            request => return Err(Missed { request, ..missed }),
        };
        gone += 1;
    }
}

/// What a request is made of once more.
#[derive(Debug)]
pub(super) struct Spare {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The callback for a 100, if one is waited for.
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
    fault: Fault,
    reach: Reach,
    /// The request, if no byte of it was sent.
    unsent: Option<Box<Request<RequestBody>>>,
}

async fn exchange(
    endpoint: &Endpoint,
    mut connection: Connection,
    mut request: Request<RequestBody>,
    limit: Duration,
) -> Result<(Connection, Response<Incoming>), Failed> {
    connection.prepare(&mut request, endpoint.member());
    let progress = request.body().progress();
    let has_large_head = has_large_head(&request);
    let answer = {
        let mut answer = pin!(connection.send(request));
        let mut deadline = Instant::from_std(monotonic() + limit);
        loop {
            if let Ok(answer) = timeout_at(deadline, answer.as_mut()).await {
                break answer;
            }
            // The upstream owes an answer only once it has the whole request.
            match progress.as_ref().map(|progress| progress.deadline(limit)) {
                Some(later) if later > deadline => deadline = later,
                _ => return Err(Failed::TIMEOUT),
            }
        }
    };
    let Unanswered { error, request } = match answer {
        Ok(response) => return Ok((connection, response)),
        Err(unanswered) => unanswered,
    };
    // What the body says of itself comes before what became of the connection.
    let of_body = progress.and_then(|progress| progress.fault()).map(Fault::Body);
    let fault = of_body.unwrap_or_else(|| connection.fault(&error));
    let reach = Reach::of(fault, request.is_some());
    let fault = if has_large_head { fault.of_large_head() } else { fault };
    Err(Failed { fault, reach, unsent: request.map(Box::new) })
}

/// Whether the head is so large that a server may not take it (RFC 9110, section 5.4).
fn has_large_head(request: &Request<RequestBody>) -> bool {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    target + request.headers().iter().map(field).sum::<usize>() > COMMON_HEAD_BYTES
}

impl Failed {
    const TIMEOUT: Self = Self { fault: Fault::Timeout, reach: Reach::Answered, unsent: None };

    /// What the attempt comes to.
    fn missed(self, spare: Option<Spare>, is_idempotent: bool) -> Missed {
        let Self { fault, reach, unsent } = self;
        let spare = spare.filter(|_| reach != Reach::Answered);
        // Not both: of a body that begins once more the earlier reader gets nothing.
        let request = unsent.or_else(|| spare?.request().map(Box::new));
        Missed { fault, request, reach, is_idempotent }
    }
}
