//! The way of one request to an upstream, and of its response back.

use http::header::{CONTENT_LENGTH, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};

use super::attempt::{Answer, Missed, attempt};
use super::course::Course;
use super::endpoint::Lease;
use super::settings::{Conditions, RetryCause};
use super::upstream::Upstream;
use super::{RequestBody, ResponseBody};
use crate::message::{
    Failure, grants_websocket, strip_hop_by_hop, switch_to_websocket, unite_lengths,
};
use crate::time::monotonic;

/// Forwards `request` to an endpoint of `upstream`, to several if need be.
///
/// # Errors
/// If there is no response.
pub(super) async fn forward(
    upstream: &Upstream,
    mut request: Request<RequestBody>,
    conditions: Conditions<'_>,
) -> Result<Response<ResponseBody>, Failure> {
    let wants_tunnel = request.headers().contains_key(UPGRADE);
    let websocket_key = match wants_tunnel {
        true => request.headers().get(SEC_WEBSOCKET_KEY).cloned(),
        false => None,
    };
    let mut course = Course::new(upstream, conditions, &request);
    let mut place = upstream.shared().place()?;
    loop {
        let lease = upstream.lease(place, conditions.affinity, &course.tried)?;
        let started = monotonic();
        let limit = conditions.timeouts.response;
        let attempted = attempt(lease.endpoint(), request, limit, &mut course).await;
        if let Some(is_good) = verdict(&attempted, wants_tunnel) {
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

/// Whether an endpoint did what could be expected of it; nothing if that cannot be
/// said, as of an endpoint that need not know WebSockets.
fn verdict(attempted: &Result<Answer, Missed>, wants_tunnel: bool) -> Option<bool> {
    match attempted {
        Ok(answer) => {
            let is_good = RetryCause::of_status(answer.response.status()).is_none();
            (is_good || !wants_tunnel).then_some(is_good)
        }
        Err(missed) => missed.fault.counts().then_some(false),
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
    let (mut head, incoming) = response.into_parts();
    if !is_wanted || has_doubtful_framing(&head.headers) || !unite_lengths(&mut head.headers) {
        return Err(Failure::UpstreamInvalid);
    }
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
