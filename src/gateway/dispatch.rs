//! Dispatches an admitted request: delays it if it must wait, and then sends a fixed
//! response or a redirect, or forwards the request to an upstream.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper::body::Body as _;
use tokio::time::{Instant, timeout_at};
use tollgate_core::decision::{Decision, OwnedDecision, X_RATELIMIT_SOFT};
use tollgate_core::request::{Malformed, RequestView};
use tollgate_core::routes::Destination;
use tollgate_core::time::{Span, monotonic};

use super::ask_usage::ask_usage;
use super::body::ResponseBody;
use super::exchange::Exchange;
use super::{Client, Gateway};
use crate::boxed::boxed;
use crate::engine::{Credential, Judgement};
use crate::message::{
    Failure, FieldFilter, Forwarding, Redirect, Via, decrement_max_forwards, expects_continue,
    options_response, strip_request, switch_to_websocket, wants_websocket,
};
use crate::proxy::{
    Expectation, ForwardOptions, ForwardedClient, InterimRelay, Mirrored, RequestBody,
};
use crate::server::ClientBody;
use crate::snapshot::{Action, Handling};

/// What is done with an admitted request.
pub enum Dispatch {
    /// The gateway itself responds.
    Respond(Box<Response<ResponseBody>>),
    /// The request goes to an upstream.
    Forward(Forward),
}

/// A request that goes to an upstream.
pub struct Forward {
    /// The index of the upstream.
    upstream: usize,
    request: Box<Request<RequestBody>>,
    /// What its body waits for, if it waits.
    expectation: Option<Expectation>,
    /// Where interim responses go, if the client supports them.
    interim: Option<InterimRelay>,
    /// The client, if the fields about it are not among those of the request.
    client: Option<Rc<Client>>,
    /// The copy of the request that another upstream gets, if there is one.
    mirrored: Option<Box<Mirrored>>,
}

/// How a request is dispatched.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The index of its route.
    pub route: usize,
    /// The index of the branch of the route's split, or 0.
    branch: usize,
    /// For how long it waits.
    pub delay: Span,
    /// The key by which its upstream chooses an endpoint, if it uses one.
    affinity: Option<u64>,
    /// The address of its client.
    pub client_ip: IpAddr,
    /// Whether it is admitted beyond a limit.
    is_soft: bool,
    /// Whether it is a preflight that the gateway answers.
    pub is_preflight: bool,
}

impl Admission {
    /// As a request is judged.
    pub fn of(judgement: &Judgement<'_>) -> Self {
        let Judgement { route, branch, affinity, client_ip, is_preflight, .. } = *judgement;
        let Decision { delay, .. } = judgement.decision;
        let is_soft = judgement.decision.is_soft();
        Self { route, branch, affinity, client_ip, delay, is_soft, is_preflight }
    }

    /// Where the request goes.
    pub const fn destination(&self) -> Destination {
        Destination { route: self.route, branch: self.branch }
    }

    /// The same, as a further decision admits the request.
    pub fn admitted_by(self, decision: &OwnedDecision) -> Self {
        Self { delay: decision.delay, is_soft: decision.is_soft(), ..self }
    }
}

impl Gateway {
    /// Prepares an admitted request: makes the gateway's own response, or the request for the
    /// upstream.
    ///
    /// # Errors
    /// If the request cannot be dispatched.
    pub fn prepare(
        &self,
        client: &Rc<Client>,
        admission: Admission,
        credential: &Credential<'_>,
        mut head: Parts,
        body: ClientBody,
        exchange: &mut Exchange,
    ) -> Result<Dispatch, Failure> {
        let handling = &self.snapshot.routes[admission.route];
        let local = |response: Response<Bytes>| {
            Dispatch::Respond(Box::new(response.map(ResponseBody::local)))
        };
        if admission.is_preflight
            && let Some(cors) = &handling.cors
        {
            return cors.preflight(&head.headers).map(local).ok_or(Failure::PreflightDenied);
        }
        match &handling.action {
            Action::Respond(fixed) => Ok(local(fixed.response())),
            Action::Redirect(redirect) => {
                self.redirect(client, admission.route, redirect, &head).map(local)
            }
            Action::Forward(_) | Action::Split(_) => {
                let clients = self.snapshot.rules.clients();
                let taken = self.taken(handling);
                let is_taken = |name: &_| taken.contains(name);
                clients.replace_key(&mut head, credential.accepted(), is_taken);
                let prepared = self.prepare_request(client, admission, head, body, exchange)?;
                Ok(prepared.map_or_else(|| local(options_response()), Dispatch::Forward))
            }
        }
    }

    /// By when a request must be answered that has waited for this time until now. None: its route
    /// sets no bound.
    pub fn deadline(&self, route: usize, waited: Duration) -> Option<Instant> {
        let limit = self.snapshot.routes[route].timeouts.request;
        limit.map(|limit| Instant::from_std(monotonic() + limit.saturating_sub(waited)))
    }

    /// Dispatches an admitted request within the time that its route allows.
    ///
    /// # Errors
    /// If there is no response that can be relayed.
    pub async fn dispatch(
        &self,
        admission: &Admission,
        dispatch: Dispatch,
        exchange: &mut Exchange,
    ) -> Result<Response<ResponseBody>, Failure> {
        let Admission { route, delay, .. } = *admission;
        let handling = &self.snapshot.routes[route];
        let waited = exchange.waited().get();
        let deadline = exchange.deadline().or_else(|| self.deadline(route, waited));
        let delayed = self.queue.delay(delay);
        let delayed = match deadline {
            None => delayed.await,
            Some(end) => timeout_at(end, delayed).await.unwrap_or(Err(Failure::RequestTimeout)),
        };
        if let Err(failure) = delayed {
            exchange.give_back();
            return Err(failure);
        }
        exchange.waits(delay);
        let Forward { upstream, mut request, expectation, interim, client, mirrored } =
            match dispatch {
                Dispatch::Respond(response) => return Ok(*response),
                Dispatch::Forward(forward) => forward,
            };
        exchange.forwarding();
        if let Some(mirrored) = mirrored {
            mirrored.follow(request.body_mut());
        }
        let forwarding = client.as_ref().map(|client| &client.forwarding);
        let clients = self.snapshot.rules.clients();
        let sender = ForwardedClient { address: &admission.client_ip, clients };
        let options = options(admission, handling, sender, interim.as_ref(), forwarding, exchange);
        // The future is large. It is made where it is awaited, so that it is not moved there.
        let forward =
            || self.proxy.forward(upstream, request, handling.fallback.as_deref(), &options);
        let response = match deadline {
            None => forward().await,
            // Boxed, because the timeout would contain the future a second time.
            Some(end) => {
                let in_time = timeout_at(end, boxed(forward)).await;
                in_time.unwrap_or(Err(Failure::RequestTimeout))
            }
        };
        if self.snapshot.rules.route(route).has_bounded_upstream {
            close(exchange, response.as_ref().err().copied());
        }
        // A body that the upstream has not asked for until now is not needed.
        expectation.iter().for_each(Expectation::refuse);
        let filter = Arc::clone(self.filters.responses(admission.route));
        let (head, body) = response?.into_parts();
        let body = ResponseBody::upstream(body, filter);
        let body = match handling.max_response_bytes {
            None => body,
            Some(max_bytes) => body.within(max_bytes)?,
        };
        let response = Response::from_parts(head, body);
        Ok(match deadline {
            None => response,
            Some(end) => response.map(|body| body.ending_by(end)),
        })
    }

    /// Prepares a request for its upstream. None if it may not be forwarded any further (RFC
    /// 9110, section 7.6.2).
    fn prepare_request(
        &self,
        client: &Rc<Client>,
        admission: Admission,
        mut head: Parts,
        mut body: ClientBody,
        exchange: &mut Exchange,
    ) -> Result<Option<Forward>, Failure> {
        let handling = &self.snapshot.routes[admission.route];
        if !decrement_max_forwards(&head.method, &mut head.headers) {
            return Ok(None);
        }
        let asked = ask_usage(exchange, &mut head.headers, &mut body);
        // What the gateway writes is not among the bytes of the client.
        let added = asked.map_or(0, |asked| asked.added);
        let max_bytes = handling.max_body_bytes.map(|max| max.saturating_add_signed(added));
        let filter = &self.filters.requests;
        let mut body = RequestBody::new(body, max_bytes, client.demand, filter)?;
        let expectation = hold_until_wanted(&head, &mut body);
        let wants_websocket = wants_websocket(&head);
        let names_client = self.prepare_head(client, handling, &mut head)?;
        if wants_websocket {
            switch_to_websocket(&mut head.headers);
        }
        if admission.is_soft {
            head.headers.insert(X_RATELIMIT_SOFT, HeaderValue::from_static("over"));
        }
        exchange.settles_after(&mut head.headers, &body);
        let forwarding = (!names_client).then_some(&client.forwarding);
        let mirrored = handling.mirror.as_deref().and_then(|settings| {
            let bytes = body.size_hint().lower();
            self.proxy.mirror(settings.upstream).copy(
                settings,
                &head,
                bytes,
                forwarding,
                handling.timeouts,
            )
        });
        let request = Box::new(Request::from_parts(head, body));
        let interim = interim_relay(client, self.filters.responses(admission.route));
        let client = (!names_client).then(|| Rc::clone(client));
        let upstream = handling.action.upstream(admission.branch).expect("the action forwards");
        Ok(Some(Forward { upstream, request, expectation, interim, client, mirrored }))
    }

    /// The fields that are those of the authorizer, and never of the client, in each request of a
    /// route that is forwarded.
    fn taken(&self, handling: &Handling) -> &[HeaderName] {
        handling.authorizer.map_or(&[], |index| &self.authorizers[index].settings().take)
    }

    fn redirect(
        &self,
        client: &Client,
        route: usize,
        redirect: &Redirect,
        head: &Parts,
    ) -> Result<Response<Bytes>, Failure> {
        let view = RequestView::of(head, client.peer)?;
        let params = self.snapshot.rules.params(route, view.path());
        Ok(redirect.response(&view, head.uri.path(), |name| params.get(name))?)
    }

    /// Prepares the head of a request for the upstream: removes hop-by-hop fields, adds
    /// the fields about the client and the gateway, and applies the edits of the route.
    ///
    /// Returns whether the fields about the client are among its fields now. If nothing can
    /// change them any more, they are written together with the request, which is faster.
    fn prepare_head(
        &self,
        client: &Client,
        handling: &Handling,
        head: &mut Parts,
    ) -> Result<bool, Failure> {
        let is_trusted = self.is_trusted(client);
        strip_request(&mut head.headers, &self.filters.requests, |name| {
            name == X_RATELIMIT_SOFT.as_str() || (!is_trusted && Forwarding::is_claim(name))
        });
        // A target in absolute form names the host, whatever `Host` says (RFC 9112, section 3.2.2).
        let target =
            head.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
        if let Some(Ok(host)) = target {
            head.headers.insert(HOST, host);
            begin_path(&mut head.uri)?;
        }
        let rules = &self.snapshot.rules;
        if !is_trusted {
            let taken = self.taken(handling);
            rules.clients().strip_claims(&mut head.headers, |name| taken.contains(name));
        }
        let with_forwarded = rules.clients().speaks_forwarded();
        if !is_trusted && !with_forwarded && handling.changes.is_none() {
            return Ok(false);
        }
        client.forwarding.write(&mut head.headers, is_trusted, with_forwarded);
        Via::write(&mut head.headers, head.version);
        if let Some(changes) = &handling.changes {
            changes.rewrite.apply(head)?;
            changes.request.apply(&mut head.headers);
        }
        Ok(true)
    }
}

/// Gives a target in absolute form that has a query and no path the path `/` (RFC 9110, section
/// 4.2.3): the target that is sent begins with it.
fn begin_path(uri: &mut Uri) -> Result<(), Failure> {
    let target = uri.path_and_query().map_or("", PathAndQuery::as_str);
    if target.starts_with('?') {
        let target = PathAndQuery::try_from(format!("/{target}"));
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(target.map_err(|_| Malformed::TargetTooLong)?);
        *uri = Uri::from_parts(parts).map_err(|_| Malformed::BadTarget)?;
    }
    Ok(())
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

/// Gives back what was charged for a request that no upstream had room for. Otherwise it stays charged.
fn close(exchange: &mut Exchange, failure: Option<Failure>) {
    let is_unsent = exchange.unanswered().is_none_or(|attempts| attempts.get() == 0);
    if failure.is_some_and(Failure::is_lack_of_room) && is_unsent {
        exchange.give_back();
    } else {
        exchange.stays_charged();
    }
}

/// How a request is forwarded.
fn options<'a>(
    admission: &Admission,
    handling: &'a Handling,
    client: ForwardedClient<'a>,
    interim: Option<&'a InterimRelay>,
    forwarding: Option<&'a Forwarding>,
    exchange: &'a Exchange,
) -> ForwardOptions<'a> {
    ForwardOptions {
        timeouts: &handling.timeouts,
        retries: handling.retries.as_ref(),
        fallback: None,
        affinity: admission.affinity,
        client: Some(client),
        interim,
        forwarding,
        attempts: exchange.attempts(),
        waited: exchange.waited(),
        unanswered: exchange.unanswered(),
    }
}

/// Relays interim responses of the upstream to the client, if the client can receive
/// them, with the fields that pass `filter`.
fn interim_relay(client: &Client, filter: &Arc<FieldFilter>) -> Option<InterimRelay> {
    let interim = client.link.as_ref()?.interim.open()?;
    Some(InterimRelay::new(interim, filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is allocated with each request that is forwarded. The allocator has no size between 2,048
    /// and 2,560 bytes.
    #[test]
    fn the_future_of_a_dispatch_is_small() {
        fn bytes<F>(
            _: impl FnOnce(&'static Gateway, &'static Admission, Dispatch, &'static mut Exchange) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let bytes = bytes(|gateway, admission, dispatch, exchange| {
            gateway.dispatch(admission, dispatch, exchange)
        });
        assert!(bytes <= 2560, "{bytes} bytes");
    }
}
