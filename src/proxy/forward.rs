//! The way of one request to an upstream, and of its response back.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{Connection, Lease};
use super::{RequestBody, ResponseBody, RouteTimeouts};
use crate::message::{Failure, strip_hop_by_hop};
use crate::time::monotonic;

/// Sends `request` over a connection to the endpoint of `lease`.
///
/// A kept connection may have been closed by the other side just now. That must
/// not cost the client an error: the request is sent once more, over a fresh
/// connection, if no byte of it can have been processed, or if processing it
/// twice does no harm (RFC 9110, section 9.2.2).
///
/// # Errors
/// If there is no response.
pub(super) async fn forward(
    lease: Lease,
    mut request: Request<RequestBody>,
    timeouts: RouteTimeouts,
) -> Result<Response<ResponseBody>, Failure> {
    prepare(&mut request, &lease);
    if let Some(connection) = lease.endpoint().reuse() {
        let spare = spare(&request);
        match send(connection, request, timeouts.response).await {
            Ok((connection, response)) => return accept(response, connection, lease, timeouts),
            Err(SendFailed { unsent, was_closed, failure }) => {
                request = match unsent {
                    Some(unsent) => *unsent,
                    None => spare.filter(|_| was_closed).ok_or(failure)?,
                };
            }
        }
    }
    let connection = lease.endpoint().connect().await?;
    let sent = send(connection, request, timeouts.response).await;
    let (connection, response) = sent.map_err(|failed| failed.failure)?;
    accept(response, connection, lease, timeouts)
}

/// Makes a request ready for the next hop.
fn prepare(request: &mut Request<RequestBody>, lease: &Lease) {
    *request.version_mut() = Version::HTTP_11;
    if request.uri().authority().is_some() {
        // A target in absolute form is for proxies; an origin gets the path.
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    let endpoint = lease.endpoint();
    request.headers_mut().entry(HOST).or_insert_with(|| endpoint.authority.clone());
}

/// A copy of a request that may be sent twice.
fn spare(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    if !request.body().is_empty() || !is_idempotent(request.method()) {
        return None;
    }
    let mut spare = Request::new(RequestBody::EMPTY);
    *spare.method_mut() = request.method().clone();
    *spare.uri_mut() = request.uri().clone();
    *spare.headers_mut() = HeaderMap::clone(request.headers());
    Some(spare)
}

/// RFC 9110, section 9.2.2.
fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE
    )
}

struct SendFailed {
    /// The request, if no byte of it was sent.
    unsent: Option<Box<Request<RequestBody>>>,
    /// Whether the connection ended without any answer.
    was_closed: bool,
    failure: Failure,
}

async fn send(
    mut connection: Connection,
    request: Request<RequestBody>,
    limit: Duration,
) -> Result<(Connection, Response<Incoming>), SendFailed> {
    let progress = request.body().progress();
    let mut answer = pin!(connection.sender.try_send_request(request));
    let mut deadline = Instant::from_std(monotonic() + limit);
    loop {
        if let Ok(answer) = timeout_at(deadline, answer.as_mut()).await {
            return answer.map(|response| (connection, response)).map_err(SendFailed::of);
        }
        // The upstream owes an answer only once it has the whole request.
        match progress.as_ref().map(|progress| progress.deadline(limit)) {
            Some(later) if later > deadline => deadline = later,
            _ => return Err(SendFailed::TIMEOUT),
        }
    }
}

impl SendFailed {
    const TIMEOUT: Self =
        Self { unsent: None, was_closed: false, failure: Failure::UpstreamTimeout };

    fn of(mut error: TrySendError<Request<RequestBody>>) -> Self {
        let unsent = error.take_message().map(Box::new);
        let error = error.into_error();
        // The body tells what is wrong with it through the library's error.
        let of_body = error.source().and_then(|source| source.downcast_ref::<Failure>()).copied();
        let was_closed = error.is_incomplete_message()
            || error.is_closed()
            || error.is_canceled()
            || is_reset(&error);
        let failure = match of_body {
            Some(failure) => failure,
            None if error.is_parse() => Failure::UpstreamInvalid,
            None => Failure::UpstreamClosed,
        };
        Self { unsent, was_closed: was_closed && of_body.is_none(), failure }
    }
}

/// A connection closed while bytes were still on their way to it is reset.
fn is_reset(error: &hyper::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|error| matches!(error.kind(), ConnectionReset | BrokenPipe))
}

/// Makes a response ready for the client.
fn accept(
    response: Response<Incoming>,
    connection: Connection,
    lease: Lease,
    timeouts: RouteTimeouts,
) -> Result<Response<ResponseBody>, Failure> {
    // Nobody asked for another protocol: `Upgrade` was not passed on.
    let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if is_tunnel || has_doubtful_framing(response.headers()) {
        return Err(Failure::UpstreamInvalid);
    }
    let (mut head, incoming) = response.into_parts();
    head.version = Version::HTTP_11;
    strip_hop_by_hop(&mut head.headers);
    Ok(Response::from_parts(head, ResponseBody::new(incoming, timeouts.idle, lease, connection)))
}

/// Whether two readers could see two ends of a response: a length beside chunks
/// is what a smuggled one looks like (RFC 9112, section 6.3), and a coding that
/// nobody asked for is not undone by anybody.
fn has_doubtful_framing(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return false;
    };
    !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        || codings.next().is_some()
        || headers.contains_key(CONTENT_LENGTH)
}
