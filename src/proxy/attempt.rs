//! One attempt of a request at one endpoint: over an idle connection, and over a new
//! one if the endpoint has closed the idle connection.

use std::pin::pin;
use std::time::{Duration, Instant};

use http::Request;
use tokio::time::timeout_at;
use tollgate_core::time::monotonic;

use super::attempt_result::{AttemptError, EndpointResponse, HeadCopy, Reach, RequestCopy};
use super::body::{BodyCopy, Expectation, RequestBody};
use super::endpoint::{Connection, Endpoint, SendError, SendOptions, Sent};
use super::fault::Fault;
use super::retry::is_idempotent;
use super::retry_state::RetryState;
use crate::boxed::boxed;

/// Every known server accepts a head of this size. A server may answer a larger head
/// by closing the connection (RFC 9110, section 5.4).
const COMMON_HEAD_BYTES: usize = 8_000;
/// Closed connections on which one request may be tried before any byte of it was sent.
const MAX_CLOSED: u32 = 4;

/// Sends `request` to `endpoint`, which has `limit` to respond. The attempt starts at
/// `started`. If it fails, the error contains the request if it may be sent again.
///
/// The endpoint may close an idle connection at any time. That must not cause an error
/// for the client: the request is sent again over a new connection if no byte of it was
/// sent, or if its method is idempotent.
///
pub async fn attempt(
    endpoint: &Endpoint,
    mut request: Box<Request<RequestBody>>,
    started: Instant,
    limit: Duration,
    retry_state: &mut RetryState<'_>,
) -> Result<EndpointResponse, AttemptError> {
    let is_idempotent = is_idempotent(request.method());
    // A tunnel keeps its connection, and needs one of HTTP/1.1.
    let is_for_tunnel = retry_state.is_for_tunnel();
    let mut usable = match &mut retry_state.reservation {
        None if is_for_tunnel => None,
        None => endpoint.reuse(started),
        Some(reservation) => reservation.take_connection(),
    };
    // The runtime may not know yet that an idle connection has ended. The first attempt on such a
    // connection costs nothing, and the next failure may be the response to the client.
    if retry_state.was_sent_before() {
        usable.take_if(|connection| !connection.is_socket_empty());
    }
    let mut closed = 0;
    loop {
        let is_reused = usable.is_some();
        if !is_reused {
            let reservation = retry_state.reservation.as_deref_mut();
            // Boxed because connecting is rare and its future is large: without the box
            // every request would reserve memory for it.
            let connected = match is_for_tunnel {
                true => boxed(|| endpoint.connect_for_tunnel(reservation)).await,
                false => boxed(|| endpoint.connect(reservation)).await,
            };
            match connected {
                Ok(connection) => usable = Some(connection),
                Err(fault) => {
                    let request = Some(request);
                    let reach = Reach::Unsent;
                    return Err(AttemptError { fault, request, reach, is_idempotent });
                }
            }
        }
        // It stays where it is: the future would contain it once more for each move.
        let connection = usable.as_mut().expect("it is open");
        retry_state.metrics().connected(is_reused);
        let expectation = request.body().expectation();
        let is_held = || expectation.as_ref().is_some_and(Expectation::is_waiting);
        let is_copied = is_idempotent || is_held();
        let (head, body) = prepare(&mut request, connection.is_http2(), is_copied, retry_state);
        // Opening a connection takes time, and using an idle one takes none.
        let begins = if is_reused { started } else { monotonic() };
        let options = retry_state.send_options();
        retry_state.begin_attempt();
        let sent = exchange(endpoint, connection, request, begins, limit, options).await;
        let mut error = match sent {
            Ok(Sent { response, request }) => {
                let connection = usable.take().expect("it is open");
                let head = request.map(HeadCopy::Kept).or(head);
                let copy = head.zip(body).map(|(head, body)| RequestCopy { head, body });
                return Ok(EndpointResponse { connection, response, copy });
            }
            Err(failed) => failed.attempt_error(head, body, is_idempotent),
        };
        usable = None;
        if !error.may_be_processed() {
            retry_state.end_attempt();
        }
        if is_for_tunnel {
            error.fault = error.fault.in_handshake();
        }
        let is_again = match error.reach {
            Reach::Unsent => closed < MAX_CLOSED,
            // An endpoint does not process a request before its body has come.
            Reach::Unanswered => is_reused && (is_idempotent || is_held()),
            Reach::Unprocessed | Reach::Answered => false,
        };
        let is_free = error.reach == Reach::Unsent;
        request = match error.request {
            Some(request) if is_again && (is_free || retry_state.take_automatic_retry()) => {
                retry_state.count_retry(error.reach);
                if !is_free {
                    retry_state.sent_again(endpoint);
                }
                request
            }
            request => return Err(AttemptError { request, ..error }),
        };
        closed += 1;
    }
}

/// Prepares the request for a connection, and copies what the connection takes of it: the head
/// over HTTP/2, and the body if it may have to be sent again. `is_copied` says that the body may
/// have to be sent again whatever the connection and the route are.
fn prepare(
    request: &mut Request<RequestBody>,
    is_http2: bool,
    is_copied: bool,
    retry_state: &mut RetryState<'_>,
) -> (Option<HeadCopy>, Option<BodyCopy>) {
    if is_http2 {
        retry_state.write_forwarding(request);
    }
    // Over HTTP/2 an endpoint can say that it has not processed a request.
    let is_buffered = retry_state.keeps_body() || is_http2;
    if is_buffered {
        request.body_mut().buffer();
    }
    let is_copied = is_copied || is_buffered;
    let body = if is_copied { request.body().copy() } else { None };
    // A connection of HTTP/1 leaves the head of the request.
    (is_http2.then(|| HeadCopy::of(request)), body)
}

/// Sends the request, and waits for the response as long as the endpoint may take.
async fn exchange(
    endpoint: &Endpoint,
    connection: &mut Connection,
    request: Box<Request<RequestBody>>,
    begins: Instant,
    limit: Duration,
    options: SendOptions<'_>,
) -> Result<Sent, Failed> {
    let progress = request.body().progress();
    let sent = {
        let mut sending = pin!(connection.send(request, endpoint.shared(), options));
        let mut deadline = tokio::time::Instant::from_std(begins + limit);
        loop {
            if let Ok(sent) = timeout_at(deadline, sending.as_mut()).await {
                break sent;
            }
            // The time of the upstream begins when it has received the whole request.
            match progress.as_ref().map(|progress| progress.deadline(limit)) {
                Some(later) if later > deadline => deadline = later,
                _ => return Err(Failed::TIMEOUT),
            }
        }
    };
    let SendError { fault, request, is_unsent } = match sent {
        Ok(sent) => return Ok(sent),
        Err(error) => error,
    };
    // A fault of the body takes precedence over the end of the connection that it causes.
    let of_body = progress.and_then(|progress| progress.fault()).map(Fault::Body);
    let fault = of_body.unwrap_or(fault);
    Err(Failed { fault, reach: Reach::of(fault, is_unsent), request })
}

/// Why a connection has brought no response.
struct Failed {
    fault: Fault,
    reach: Reach,
    /// The request, if it is still there. It has lost its body if a part was sent.
    request: Option<Box<Request<RequestBody>>>,
}

impl Failed {
    const TIMEOUT: Self = Self { fault: Fault::Timeout, reach: Reach::Answered, request: None };

    /// The error of the attempt, with the request if it can be sent again: from what the
    /// connection has left of it, or from a copy.
    fn attempt_error(
        self,
        head: Option<HeadCopy>,
        body: Option<BodyCopy>,
        is_idempotent: bool,
    ) -> AttemptError {
        let Self { mut fault, reach, request } = self;
        let head = request.map(HeadCopy::Kept).or(head);
        if head.as_ref().is_some_and(|head| head.bytes() > COMMON_HEAD_BYTES) {
            fault = fault.with_large_head();
        }
        let request = match (reach, head) {
            (Reach::Unsent, Some(HeadCopy::Kept(request))) => Some(request),
            (Reach::Answered, _) => None,
            (_, head) => {
                let copy = head.zip(body).map(|(head, body)| RequestCopy { head, body });
                copy.and_then(RequestCopy::into_request)
            }
        };
        AttemptError { fault, request, reach, is_idempotent }
    }
}
