//! Dispatches an admitted request: delays it if it must wait, and then sends a fixed
//! response or a redirect, or forwards the request to an upstream.

use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Body as _;
use hyper::ext::on_informational;
use tokio::time::{Instant, timeout_at};
use tollgate_limiter::decision::X_RATELIMIT_SOFT;
use tollgate_limiter::request::RequestView;
use tollgate_limiter::time::monotonic;

use super::body::ResponseBody;
use super::exchange::Exchange;
use super::{Client, Gateway};
use crate::engine::Judgement;
use crate::message::{
    Failure, FieldFilter, Redirect, Via, decrement_max_forwards, expects_continue,
    options_response, strip_hop_by_hop_of_request, switch_to_websocket, wants_websocket,
};
use crate::proxy::{Expectation, ForwardOptions, RequestBody};
use crate::server::{ClientBody, InterimQueue};
use crate::snapshot::{Action, Handling};

/// A request that is forwarded, when it is prepared.
enum Prepared {
    /// The request for the upstream, and what its body waits for, if it waits.
    Upstream(Box<Request<RequestBody>>, Option<Expectation>),
    /// It may not be forwarded any further (RFC 9110, section 7.6.2).
    LastHop,
}

impl Gateway {
    /// Dispatches an admitted request within the time that its route allows.
    pub(super) async fn dispatch(
        &self,
        client: &Client,
        judgement: &Judgement<'_>,
        request: Request<ClientBody>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let Judgement { route, decision, .. } = judgement;
        let handling = &self.snapshot.routes[*route];
        let limit = handling.timeouts.request;
        let deadline = limit.map(|limit| Instant::from_std(monotonic() + limit));
        let delayed = self.queue.delay(decision.delay);
        match deadline {
            None => delayed.await?,
            Some(end) => timeout_at(end, delayed).await.map_err(|_| Failure::RequestTimeout)??,
        }
        exchange.waited().set(decision.delay.into());
        let upstream = match &handling.action {
            Action::Respond(fixed) => return Ok(fixed.response().map(ResponseBody::local)),
            Action::Redirect(redirect) => return self.redirect(client, *route, redirect, request),
            Action::Forward(upstream) => *upstream,
        };
        let prepared = self.prepare(client, judgement, request, exchange)?;
        let Prepared::Upstream(request, expectation) = prepared else {
            return Ok(options_response().map(ResponseBody::local));
        };
        let forwarded =
            self.proxy.forward(upstream, request, options(judgement, handling, exchange));
        let response = match deadline {
            None => forwarded.await,
            // Boxed, because the timeout would contain the future a second time.
            Some(end) => {
                let in_time = timeout_at(end, Box::pin(forwarded)).await;
                in_time.unwrap_or(Err(Failure::RequestTimeout))
            }
        };
        // A body that the upstream has not asked for until now is not needed.
        expectation.iter().for_each(Expectation::refuse);
        let filter = Arc::clone(self.filters.responses(*route));
        let response = response?.map(|body| ResponseBody::upstream(body, filter));
        Ok(match deadline {
            None => response,
            Some(end) => response.map(|body| body.ending_by(end)),
        })
    }

    /// Prepares a request for its upstream.
    fn prepare(
        &self,
        client: &Client,
        judgement: &Judgement<'_>,
        request: Request<ClientBody>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Prepared, Failure> {
        let handling = &self.snapshot.routes[judgement.route];
        let (mut head, body) = request.into_parts();
        if !decrement_max_forwards(&head.method, &mut head.headers) {
            return Ok(Prepared::LastHop);
        }
        let (max_bytes, filter) = (handling.max_body_bytes, &self.filters.requests);
        let mut body = RequestBody::new(body, max_bytes, client.demand, filter)?;
        let expectation = hold_until_wanted(&head, &mut body);
        let wants_websocket = wants_websocket(&head);
        self.prepare_head(client, handling, &mut head)?;
        if wants_websocket {
            switch_to_websocket(&mut head.headers);
        }
        if judgement.decision.is_soft() {
            head.headers.insert(X_RATELIMIT_SOFT, HeaderValue::from_static("over"));
        }
        exchange.forwarded(&mut head.headers, &body);
        let mut request = Box::new(Request::from_parts(head, body));
        let filter = self.filters.responses(judgement.route);
        relay_interim_responses(client, &mut request, filter, expectation.clone());
        Ok(Prepared::Upstream(request, expectation))
    }

    fn redirect(
        &self,
        client: &Client,
        route: usize,
        redirect: &Redirect,
        request: Request<ClientBody>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let (head, _) = request.into_parts();
        let view = RequestView::of(&head, client.peer)?;
        let params = self.snapshot.rules.params(route, view.path());
        let response = redirect.response(&view, head.uri.path(), |name| params.get(name))?;
        Ok(response.map(ResponseBody::local))
    }

    /// Prepares the head of a request for the upstream: removes hop-by-hop fields, adds
    /// the fields about the client and the gateway, and applies the edits of the route.
    fn prepare_head(
        &self,
        client: &Client,
        handling: &Handling,
        head: &mut Parts,
    ) -> Result<(), Failure> {
        strip_hop_by_hop_of_request(&mut head.headers);
        head.headers.remove(X_RATELIMIT_SOFT);
        // A target in absolute form names the host, even if there is no `Host` (RFC 9112,
        // section 3.2.2).
        let target =
            head.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
        if let Some(Ok(host)) = target {
            head.headers.entry(HOST).or_insert(host);
        }
        let rules = &self.snapshot.rules;
        let is_trusted = self.is_trusted(client);
        if !is_trusted {
            rules.clients().strip_claims(&mut head.headers);
        }
        client.forwarding.write(&mut head.headers, is_trusted, rules.clients().speaks_forwarded());
        Via::write(&mut head.headers, head.version);
        if let Some(changes) = &handling.changes {
            changes.rewrite.apply(head)?;
            changes.request.apply(&mut head.headers);
        }
        Ok(())
    }
}

/// If the client sends its body only after `100 Continue`, the body is held until the
/// upstream wants it.
fn hold_until_wanted(head: &Parts, body: &mut RequestBody) -> Option<Expectation> {
    if body.is_end_stream() || !expects_continue(head.version, &head.headers) {
        return None;
    }
    let expectation = Expectation::default();
    body.hold_until(&expectation);
    Some(expectation)
}

/// How a request is forwarded.
fn options<'a>(
    judgement: &Judgement<'_>,
    handling: &'a Handling,
    exchange: &'a Exchange<'_>,
) -> ForwardOptions<'a> {
    ForwardOptions {
        timeouts: handling.timeouts,
        retries: handling.retries.as_ref(),
        affinity: judgement.affinity,
        attempts: exchange.attempts(),
        waited: exchange.waited(),
    }
}

/// Relays interim responses of the upstream to the client, if the client can receive
/// them, with the fields that pass `filter`. A `100 Continue` releases a body that is
/// held.
fn relay_interim_responses(
    client: &Client,
    request: &mut Request<RequestBody>,
    filter: &Arc<FieldFilter>,
    expectation: Option<Expectation>,
) {
    let interim = client.interim.as_ref().and_then(InterimQueue::open);
    if interim.is_none() && expectation.is_none() {
        return;
    }
    let filter = Arc::clone(filter);
    on_informational(request, move |response| {
        if response.status() == StatusCode::CONTINUE
            && let Some(expectation) = &expectation
        {
            expectation.meet();
        }
        if let Some(interim) = &interim {
            interim.send(response.status(), &filter.interim(response.headers().clone()));
        }
    });
}
