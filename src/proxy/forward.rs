//! The way of one request to an upstream, and of its response back.
//!
//! A request goes to another endpoint at once while nothing of it was sent
//! anywhere. What was sent is sent again only if no byte of it can have been
//! processed, if the connection closed without any answer and it does no harm
//! twice (on a kept connection, and once on a fresh one), or if its route says so,
//! within the route's budget; and never once a response has been passed on.

use http::header::{CONTENT_LENGTH, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use tokio::time::sleep;

use super::attempt::{Answer, Missed, attempt};
use super::endpoint::Lease;
use super::retry;
use super::settings::{Conditions, RetryCause};
use super::upstream::{Tried, Upstream};
use super::{RequestBody, ResponseBody};
use crate::message::{Blame, Failure, grants_websocket, strip_hop_by_hop, switch_to_websocket};
use crate::time::monotonic;

/// Endpoints that one request tries to connect, at most: each of them may take
/// the whole time for it.
const MAX_TRIED: usize = 8;

/// Forwards `request` to an endpoint of `upstream`, to several if need be.
///
/// # Errors
/// If there is no response.
pub(super) async fn forward(
    upstream: &Upstream,
    mut request: Request<RequestBody>,
    conditions: Conditions<'_>,
) -> Result<Response<ResponseBody>, Failure> {
    let websocket_key = match request.headers().contains_key(UPGRADE) {
        true => request.headers().get(SEC_WEBSOCKET_KEY).cloned(),
        false => None,
    };
    let mut course = Course::new(upstream, conditions, &request);
    if course.may_retry {
        request = request.map(RequestBody::recorded);
    }
    let mut place = upstream.shared().place()?;
    loop {
        let lease = upstream.lease(place, conditions.affinity, &course.tried)?;
        let started = monotonic();
        let limit = conditions.timeouts.response;
        let attempted = attempt(lease.endpoint(), request, limit, course.may_retry).await;
        if let Some(is_good) = verdict(&attempted) {
            upstream.shared().note(lease.endpoint().member(), is_good);
        }
        let missed = match attempted {
            Ok(answer) => match course.second_thoughts(answer) {
                Ok(answer) => {
                    upstream.observe(monotonic().duration_since(started).into());
                    return pass_on(answer, lease, conditions, websocket_key.as_ref());
                }
                Err(missed) => missed,
            },
            Err(missed) => missed,
        };
        course.tried.push(lease.endpoint().clone());
        place = lease.leave();
        request = course.again(missed).await?;
    }
}

/// Whether an endpoint did what could be expected of it. What a client did wrong
/// says nothing of it.
fn verdict(attempted: &Result<Answer, Missed>) -> Option<bool> {
    match attempted {
        Ok(answer) => Some(RetryCause::of_status(answer.response.status()).is_none()),
        Err(missed) => (missed.failure.blame() == Blame::Upstream).then_some(false),
    }
}

/// How a request has fared so far.
struct Course<'a> {
    upstream: &'a Upstream,
    conditions: Conditions<'a>,
    /// Whether its route lets requests of its method be repeated.
    may_retry: bool,
    /// Where it failed.
    tried: Tried,
    /// Whether it was sent again because that does no harm.
    is_repeated: bool,
    retries: u32,
}

impl<'a> Course<'a> {
    fn new(
        upstream: &'a Upstream,
        conditions: Conditions<'a>,
        request: &Request<RequestBody>,
    ) -> Self {
        let may_retry = retry::allows(conditions.retries, request.method());
        if let Some(settings) = conditions.retries.filter(|_| may_retry) {
            upstream.budget().pay_in(settings.budget_percent);
        }
        Self {
            upstream,
            conditions,
            may_retry,
            tried: Tried::new(),
            is_repeated: false,
            retries: 0,
        }
    }

    /// Gives up an answer that the route would rather have from elsewhere.
    fn second_thoughts(&mut self, answer: Answer) -> Result<Answer, Missed> {
        let Some(cause) = RetryCause::of_status(answer.response.status()) else {
            return Ok(answer);
        };
        let request = self.may_retry.then(|| answer.spare.as_ref()?.request()).flatten();
        match request {
            Some(request) if self.take_retry(cause) => Err(Missed::given_up(request)),
            _ => Ok(answer),
        }
    }

    /// The request for its next attempt, when it is time for it.
    async fn again(&mut self, missed: Missed) -> Result<Request<RequestBody>, Failure> {
        let Missed { failure, request, cause, is_unsent, may_be_repeated } = missed;
        let request = *request.ok_or(failure)?;
        let is_elsewhere = self.tried.len() < MAX_TRIED && !self.upstream.is_exhausted(&self.tried);
        if is_unsent && is_elsewhere {
            return Ok(request);
        }
        // An endpoint that stops may accept a connection yet, and close it. A route
        // with `retries` has said what it wants.
        let is_free = self.conditions.retries.is_none() && !self.is_repeated;
        if may_be_repeated && is_free {
            self.is_repeated = true;
            return Ok(request);
        }
        if let Some(cause) = cause
            && !(self.may_retry && self.take_retry(cause))
        {
            return Err(failure);
        }
        sleep(self.upstream.pause(self.retries)).await;
        Ok(request)
    }

    /// Whether the route allows one more retry, and can afford it.
    fn take_retry(&mut self, cause: RetryCause) -> bool {
        let is_allowed = self
            .conditions
            .retries
            .is_some_and(|settings| retry::covers(settings, cause, self.retries + 1));
        let is_taken = is_allowed && self.upstream.budget().take(monotonic());
        self.retries += u32::from(is_taken);
        is_taken
    }
}

/// Makes a response ready for the client, who asked for a WebSocket if there is
/// a key.
fn pass_on(
    answer: Answer,
    lease: Lease,
    conditions: Conditions<'_>,
    websocket_key: Option<&HeaderValue>,
) -> Result<Response<ResponseBody>, Failure> {
    let Answer { connection, response, .. } = answer;
    let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let is_wanted = !is_tunnel || grants_websocket(websocket_key, response.headers());
    if !is_wanted || has_doubtful_framing(response.headers()) {
        return Err(Failure::UpstreamInvalid);
    }
    let (mut head, incoming) = response.into_parts();
    head.version = Version::HTTP_11;
    strip_hop_by_hop(&mut head.headers);
    let body = if is_tunnel {
        switch_to_websocket(&mut head.headers);
        ResponseBody::of_tunnel(incoming, lease, connection)
    } else {
        ResponseBody::new(incoming, conditions.timeouts.idle, lease, connection)
    };
    Ok(Response::from_parts(head, body))
}

/// Whether two readers could see two ends of a response: a length beside chunks
/// is what a smuggled one looks like (RFC 9112, section 6.3), a coding that
/// nobody asked for is not undone by anybody, and a reader with signed numbers
/// counts no further than 2^63 - 1.
fn has_doubtful_framing(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| i64::try_from(length).is_err()) {
        return true;
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else {
        return false;
    };
    !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        || codings.next().is_some()
        || headers.contains_key(CONTENT_LENGTH)
}
