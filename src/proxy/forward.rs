//! Forwards one request to an upstream, and relays its response.

use http::header::{CONTENT_LENGTH, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use tollgate_core::request::Fields;
use tollgate_core::time::monotonic;

use super::attempt::attempt;
use super::attempt_result::{AttemptError, EndpointResponse, HeadCopy};
use super::body::RequestBody;
use super::endpoint::InFlight;
use super::fallback::{Fallback, FallbackSettings, Left};
use super::response_body::ResponseBody;
use super::retry_state::RetryState;
use super::settings::{ForwardOptions, RetryCause};
use super::upstream::Upstream;
use crate::boxed::boxed;
use crate::message::{
    Failure, accepts_websocket, merge_content_lengths, recycle, strip_hop_by_hop,
    switch_to_websocket,
};

/// Forwards `request` to an endpoint of `upstream`, or to several in turn.
///
/// # Errors
/// If there is no response.
pub async fn forward(
    upstream: &Upstream,
    mut request: Box<Request<RequestBody>>,
    options: &ForwardOptions<'_>,
) -> Result<Response<ResponseBody>, Failure> {
    let mut retry_state = RetryState::new(upstream, options, &request);
    let wants_tunnel = retry_state.is_for_tunnel();
    let wanted = wants_tunnel.then(|| WantedTunnel {
        key: request.headers().get(SEC_WEBSOCKET_KEY).cloned(),
        opens_by_success: request.version() == Version::HTTP_2,
    });
    let mut permit = upstream.shared().permit()?;
    loop {
        let assigned = match upstream.bound() {
            None => upstream.assign(permit, options.affinity, &retry_state.tried),
            // Boxed, because few upstreams have a bound, and the future is large.
            Some(bound) => boxed(|| upstream.reserve(bound, permit, &mut retry_state)).await,
        };
        let in_flight = match assigned {
            Ok(in_flight) => in_flight,
            Err(failure) => {
                if failure == Failure::UpstreamUnresolved {
                    retry_state.fall_back(RetryCause::Connect, request);
                }
                return Err(failure);
            }
        };
        if let Some(attempts) = options.attempts {
            attempts.add(&upstream.shared().settings().name, &in_flight.endpoint().shared().shown);
        }
        let started = monotonic();
        let limit = options.timeouts.response;
        let endpoint = in_flight.endpoint();
        let result = attempt(endpoint, request, started, limit, &mut retry_state).await;
        let took = monotonic().duration_since(started);
        options.waited.set(options.waited.get() + took);
        match &result {
            Ok(response) => upstream.metrics().answered(response.response.status(), took),
            Err(error) => upstream.failed(in_flight.endpoint(), error.fault, took),
        }
        if let Some(is_success) = health_verdict(&result, wants_tunnel) {
            upstream.shared().record_request(in_flight.endpoint().shared(), is_success);
        }
        let error = match result {
            Ok(mut response) => match retry_state.check_status(&mut response) {
                None if retry_state.falls_back_from(&mut response) => {
                    return Err(Failure::UpstreamClosed);
                }
                None => {
                    upstream.observe(took.into());
                    return relay(response, in_flight, options, wanted.as_ref());
                }
                Some(error) => error,
            },
            Err(error) => error,
        };
        retry_state.tried.push(in_flight.endpoint().clone());
        permit = in_flight.into_permit();
        request = retry_state.next_request(error).await?;
    }
}

/// Forwards `request` to `first`, and then to `second` if `settings` say so.
///
/// # Errors
/// If there is no response.
pub async fn forward_with_fallback(
    first: &Upstream,
    second: &Upstream,
    settings: &FallbackSettings,
    request: Box<Request<RequestBody>>,
    options: &ForwardOptions<'_>,
) -> Result<Response<ResponseBody>, Failure> {
    let fallback = Fallback::new(settings);
    let with_fallback = ForwardOptions { fallback: Some(&fallback), ..*options };
    let result = forward(first, request, &with_fallback).await;
    let Some(Left { request, names_client }) = fallback.take() else { return result };
    let options = ForwardOptions {
        retries: None,
        affinity: None,
        forwarding: options.forwarding.filter(|_| !names_client),
        fallback: None,
        ..*options
    };
    forward(second, request, &options).await
}

/// Whether the attempt counts as a success or a failure of the endpoint; none if it
/// counts as neither, as with an endpoint that does not know WebSockets.
fn health_verdict(
    result: &Result<EndpointResponse, AttemptError>,
    wants_tunnel: bool,
) -> Option<bool> {
    match result {
        Ok(response) => {
            let is_success = RetryCause::of_status(response.response.status()).is_none();
            (is_success || !wants_tunnel).then_some(is_success)
        }
        Err(error) => error.fault.counts().then_some(false),
    }
}

/// The WebSocket that a request asks for.
struct WantedTunnel {
    key: Option<HeaderValue>,
    /// Whether the client takes any success for an open WebSocket: over HTTP/2 (RFC 8441, section
    /// 5).
    opens_by_success: bool,
}

/// Prepares a response for the client, which may have asked for a WebSocket.
fn relay(
    response: EndpointResponse,
    in_flight: InFlight,
    options: &ForwardOptions<'_>,
    wanted: Option<&WantedTunnel>,
) -> Result<Response<ResponseBody>, Failure> {
    let EndpointResponse { connection, response, copy } = response;
    if let Some(HeadCopy::Kept(mut request)) = copy.map(|copy| copy.head) {
        recycle(std::mem::take(request.headers_mut()));
    }
    let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let key = wanted.and_then(|wanted| wanted.key.as_ref());
    let is_wanted = !is_tunnel || accepts_websocket(key, response.headers());
    if response.status().is_success() && wanted.is_some_and(|wanted| wanted.opens_by_success) {
        return Err(Failure::UpstreamNoTunnel);
    }
    let (mut head, ()) = response.into_parts();
    if !is_wanted
        || has_ambiguous_framing(&head.headers)
        || merge_content_lengths(&mut head.headers).is_err()
    {
        return Err(Failure::UpstreamInvalid);
    }
    head.version = Version::HTTP_11;
    if is_tunnel || head.status == StatusCode::NO_CONTENT {
        // RFC 9110, section 8.6. HTTP/2 would take it for the length of the content.
        head.headers.remove(CONTENT_LENGTH);
    }
    strip_hop_by_hop(&mut head.headers);
    let body = if is_tunnel {
        switch_to_websocket(&mut head.headers);
        head.extensions.insert(connection.into_tunnel().ok_or(Failure::UpstreamInvalid)?);
        ResponseBody::of_tunnel(in_flight)
    } else {
        ResponseBody::new(options.timeouts.idle, in_flight, connection)
    };
    Ok(Response::from_parts(head, body))
}

/// Whether two readers could see different ends of a response. A length beside chunks
/// is a sign of smuggling (RFC 9112, section 6.3), and no reader decodes a transfer
/// coding that was not asked for.
fn has_ambiguous_framing(headers: &HeaderMap) -> bool {
    let fields = Fields::of(headers);
    let mut codings = fields.get_all(&TRANSFER_ENCODING);
    let Some(coding) = codings.next() else {
        return false;
    };
    !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        || codings.next().is_some()
        || fields.has(&CONTENT_LENGTH)
}
