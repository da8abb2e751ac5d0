//! The state of a request between its attempts: where it has failed, and whether it
//! may be sent again.
//!
//! A request of which no byte was sent may go to another endpoint at once. A request
//! that was sent is sent again in three cases: the endpoint says that it has not
//! processed the request (RFC 9113, section 8.7), the connection ended without a
//! response and the method is idempotent, or the route allows it. The first two cases
//! are automatic retries, of which each request has one. All but the first case take
//! from the retry budget of the upstream.

use std::time::Duration;

use http::Request;
use http::header::UPGRADE;
use tokio::time::sleep;
use tollgate_core::time::monotonic;

use super::attempt_result::{AttemptError, EndpointResponse, Reach, RequestCopy};
use super::body::RequestBody;
use super::endpoint::{Endpoint, Queueing, Reservation, SendOptions};
use super::fallback::FallbackCause;
use super::limit::Place;
use super::retry;
use super::settings::{ForwardOptions, RetryCause};
use super::upstream::{Tried, Upstream};
use crate::message::{Failure, Forwarding};
use crate::telemetry::UpstreamMetrics;

/// Endpoints to which one request may try to connect. Each of them may take the whole
/// connect timeout.
const MAX_TRIED: usize = 8;
/// What a request of a route without `retries` pays into the budget, in percent of a
/// retry.
const AUTOMATIC_PERCENT: u8 = 20;

/// The state of a request between its attempts.
pub struct RetryState<'a> {
    upstream: &'a Upstream,
    options: &'a ForwardOptions<'a>,
    /// What writes the fields about the client, if they are not among those of the request.
    forwarding: Option<&'a Forwarding>,
    /// Whether it asks for a tunnel.
    is_for_tunnel: bool,
    /// Whether its route allows retries for the request's method.
    may_retry: bool,
    /// Whether its route has a fallback, to which the request may go after it was sent.
    may_fall_back: bool,
    /// The endpoints at which it failed.
    pub tried: Tried,
    /// How it gets connections, if they are bounded.
    pub reservation: Option<Box<Reservation<'a>>>,
    /// Whether its automatic retry is used up.
    was_retried_automatically: bool,
    retries: u32,
}

impl<'a> RetryState<'a> {
    pub fn new(
        upstream: &'a Upstream,
        options: &'a ForwardOptions<'a>,
        request: &Request<RequestBody>,
    ) -> Self {
        let may_retry = retry::allows(options.retries, request.method());
        match options.retries {
            Some(settings) if may_retry => upstream.budget().pay_in(settings.budget_percent),
            Some(_) => {}
            None => upstream.budget().pay_in(AUTOMATIC_PERCENT),
        }
        Self {
            upstream,
            options,
            forwarding: options.forwarding,
            is_for_tunnel: request.headers().contains_key(UPGRADE),
            may_retry,
            may_fall_back: options.fallback.is_some()
                && retry::may_repeat(request.method(), options.retries),
            tried: Tried::new(),
            reservation: reservation(upstream, options),
            was_retried_automatically: false,
            retries: 0,
        }
    }

    /// What this worker counts of the upstream.
    pub fn metrics(&self) -> &'a UpstreamMetrics {
        self.upstream.metrics()
    }

    /// What the next attempt needs besides the request.
    pub const fn send_options(&self) -> SendOptions<'a> {
        SendOptions { interim: self.options.interim, forwarding: self.forwarding }
    }

    /// Writes the fields about the client into the request, if they are not among its fields.
    pub fn write_forwarding(&mut self, request: &mut Request<RequestBody>) {
        if let Some(forwarding) = self.forwarding.take() {
            let version = request.version();
            forwarding.write_untrusted(request.headers_mut(), version);
        }
    }

    /// Whether it asks for a tunnel: it has the field `Upgrade`. Other requests must not have it.
    pub const fn is_for_tunnel(&self) -> bool {
        self.is_for_tunnel
    }

    /// Its key for the choice of an endpoint, if it has one.
    pub const fn affinity(&self) -> Option<u64> {
        self.options.affinity
    }

    /// The request has waited for a connection.
    pub fn has_waited(&self, waited: Duration) {
        self.options.waited.set(self.options.waited.get() + waited);
    }

    /// Whether it was sent before, so that its client may get the next failure.
    pub const fn was_sent_before(&self) -> bool {
        self.was_retried_automatically || self.retries > 0
    }

    /// Whether the request may have to be sent again because of what its route says.
    pub const fn keeps_body(&self) -> bool {
        self.may_retry || self.may_fall_back
    }

    /// The error instead of a response if its status is a cause for a retry and one is left.
    pub fn check_status(&mut self, response: &mut EndpointResponse) -> Option<AttemptError> {
        let cause = RetryCause::of_status(response.response.status())?;
        let is_whole = response.copy.as_ref().is_some_and(RequestCopy::is_whole);
        if !self.may_retry || !is_whole || !self.take_retry(cause) {
            return None;
        }
        let request = response.copy.take()?.into_request()?;
        self.end_attempt();
        self.metrics().retried(cause.as_str());
        Some(AttemptError::dropped_response(request))
    }

    /// Leaves the request to the fallback if the status of the response is a cause for it. Returns
    /// whether it does.
    pub fn falls_back_from(&self, response: &mut EndpointResponse) -> bool {
        let Some(fallback) = self.options.fallback else { return false };
        let cause = FallbackCause::Status(response.response.status());
        let is_whole = || response.copy.as_ref().is_some_and(RequestCopy::is_whole);
        if !fallback.covers(cause) || !self.may_fall_back || !is_whole() || !self.pays(cause) {
            return false;
        }
        let request = response.copy.take().and_then(RequestCopy::into_request);
        let Some(request) = request else { return false };
        self.end_attempt();
        fallback.leave(request, self.forwarding.is_none());
        true
    }

    /// Leaves a request that got no response to the fallback, if that is allowed.
    pub fn fall_back(&self, cause: RetryCause, request: Box<Request<RequestBody>>) {
        let Some(fallback) = self.options.fallback else { return };
        let Some(cause) = cause.fallback().filter(|cause| fallback.covers(*cause)) else {
            return;
        };
        // Nothing was sent if there was no connection.
        let is_free = cause == FallbackCause::Connect;
        if is_free {
            self.metrics().fell_back(cause.as_str(), "sent");
        }
        if is_free || self.may_fall_back && self.pays(cause) {
            fallback.leave(request, self.forwarding.is_none());
        }
    }

    /// Takes a fallback from the retry budget.
    fn pays(&self, cause: FallbackCause) -> bool {
        let is_paid = self.upstream.budget().take(monotonic());
        self.metrics().fell_back(cause.as_str(), if is_paid { "sent" } else { "over_budget" });
        is_paid
    }

    /// The request for its next attempt, after the pause before it.
    ///
    /// # Errors
    /// If the request may not be sent again.
    pub async fn next_request(
        &mut self,
        error: AttemptError,
    ) -> Result<Box<Request<RequestBody>>, Failure> {
        let AttemptError { fault, request, reach, is_idempotent } = error;
        let request = request.ok_or(fault.failure())?;
        let is_at_once = match reach {
            Reach::Unsent => {
                self.tried.len() < MAX_TRIED && !self.upstream.is_exhausted(&self.tried)
            }
            // Free of charge: the endpoint has not processed the request, and an endpoint
            // that closes a connection gracefully does so for all requests on their way.
            Reach::Unprocessed => self.use_automatic_retry(|_| true),
            // An endpoint that stops may accept a connection and then close it. A route
            // with `retries` decides for itself.
            Reach::Unanswered => {
                is_idempotent && self.options.retries.is_none() && self.take_automatic_retry()
            }
            Reach::Answered => false,
        };
        if is_at_once {
            self.count_retry(reach);
            return Ok(request);
        }
        if let Some(cause) = reach.cause()
            && !(self.may_retry && self.take_retry(cause))
        {
            self.fall_back(cause, request);
            return Err(fault.failure());
        }
        sleep(self.upstream.pause(self.retries)).await;
        self.count_retry(reach);
        Ok(request)
    }

    /// Counts that the request is sent again after it came this far.
    pub fn count_retry(&self, reach: Reach) {
        let cause = match reach {
            Reach::Unsent => RetryCause::Connect.as_str(),
            Reach::Unprocessed => "unprocessed",
            Reach::Unanswered => RetryCause::Reset.as_str(),
            // Counted when the response was dropped.
            Reach::Answered => return,
        };
        self.metrics().retried(cause);
    }

    /// Takes the automatic retry, if it is not used up and the budget allows it.
    pub fn take_automatic_retry(&mut self) -> bool {
        self.use_automatic_retry(|upstream| upstream.budget().take(monotonic()))
    }

    /// Takes the automatic retry, if it is not used up and `is_allowed` agrees. It is one of the
    /// retries of the route, if the route has some.
    fn use_automatic_retry(&mut self, is_allowed: impl FnOnce(&Upstream) -> bool) -> bool {
        let is_left = match self.options.retries.filter(|_| self.may_retry) {
            Some(settings) => self.retries < settings.attempts,
            None => true,
        };
        let is_used = is_left
            && !std::mem::replace(&mut self.was_retried_automatically, true)
            && is_allowed(self.upstream);
        self.retries += u32::from(is_used && self.may_retry);
        is_used
    }

    /// Records that the request is sent to an endpoint now.
    pub fn begin_attempt(&self) {
        if let Some(unanswered) = self.options.unanswered {
            unanswered.set(unanswered.get() + 1);
        }
    }

    /// Records that the endpoint does not process the attempt any more: it has not got the request,
    /// or does not process it, or has answered it.
    pub fn end_attempt(&self) {
        if let Some(unanswered) = self.options.unanswered {
            unanswered.set(unanswered.get().saturating_sub(1));
        }
    }

    /// Records that the request is sent again to this endpoint.
    pub fn sent_again(&self, endpoint: &Endpoint) {
        if let Some(attempts) = self.options.attempts {
            attempts.add(&self.upstream.shared().settings().name, &endpoint.shared().shown);
        }
    }

    /// Takes a retry, if the route and the budget allow one.
    fn take_retry(&mut self, cause: RetryCause) -> bool {
        let is_allowed = self
            .options
            .retries
            .is_some_and(|settings| retry::covers(settings, cause, self.retries + 1));
        let is_taken = is_allowed && self.upstream.budget().take(monotonic());
        self.retries += u32::from(is_taken);
        is_taken
    }
}

/// How a request gets connections, if those to the upstream are bounded.
fn reservation<'a>(
    upstream: &'a Upstream,
    options: &'a ForwardOptions<'a>,
) -> Option<Box<Reservation<'a>>> {
    let settings = upstream.shared().settings().connections?;
    let queueing = options.client.map(|client| Queueing {
        place: Place { client: client.network(), ticket: None },
        left: settings.queue_timeout,
        metrics: upstream.metrics(),
        attempts: options.attempts,
    });
    Some(Box::new(Reservation { reserved: None, queueing }))
}
