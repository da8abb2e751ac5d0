//! What becomes of an admitted request: it is held if it must wait, then
//! answered here, led elsewhere, or forwarded.

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::ext::on_informational;
use tokio::time::{Instant, timeout_at};

use super::{Client, Exchange, Gateway, Judgement, ResponseBody};
use crate::limiter::X_RATELIMIT_SOFT;
use crate::message::{
    Failure, Redirect, Via, options, strip_hop_by_hop, switch_to_websocket, take_hop,
    wants_websocket,
};
use crate::proxy::{Conditions, RequestBody};
use crate::request::RequestView;
use crate::server::InterimQueue;
use crate::snapshot::{Action, Handling};
use crate::time::monotonic;

impl Gateway {
    /// What becomes of an admitted request, in the time that its route gives it.
    pub(super) async fn act(
        &self,
        client: &Client,
        judgement: &Judgement<'_>,
        request: Request<Incoming>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let Some(limit) = self.snapshot.routes[judgement.route].timeouts.request else {
            return self.act_unhurried(client, judgement, request, exchange).await;
        };
        let deadline = Instant::from_std(monotonic() + limit);
        let acting = Box::pin(self.act_unhurried(client, judgement, request, exchange));
        let answer = timeout_at(deadline, acting).await;
        let response = answer.map_err(|_| Failure::RequestTimeout)??;
        Ok(response.map(|body| body.ending_by(deadline)))
    }

    async fn act_unhurried(
        &self,
        client: &Client,
        judgement: &Judgement<'_>,
        request: Request<Incoming>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let Judgement { route, affinity, decision, .. } = judgement;
        self.queue.hold(decision.delay).await?;
        let handling = &self.snapshot.routes[*route];
        match &handling.action {
            Action::Respond(fixed) => Ok(fixed.response().map(ResponseBody::local)),
            Action::Redirect(redirect) => self.redirect(client, *route, redirect, request),
            Action::Forward(upstream) => {
                let (mut head, body) = request.into_parts();
                if !take_hop(&head.method, &mut head.headers) {
                    return Ok(options().map(ResponseBody::local));
                }
                let body = RequestBody::new(body, handling.max_body_bytes, client.body_patience)?;
                let wants_websocket = wants_websocket(&head);
                self.introduce(client, handling, &mut head)?;
                if wants_websocket {
                    switch_to_websocket(&mut head.headers);
                }
                if decision.is_soft() {
                    head.headers.insert(X_RATELIMIT_SOFT, HeaderValue::from_static("over"));
                }
                exchange.forwarded(&mut head.headers, &body);
                let mut request = Request::from_parts(head, body);
                relay_interim(client, &mut request);
                let (timeouts, retries) = (handling.timeouts, handling.retries.as_ref());
                let conditions = Conditions { timeouts, retries, affinity: *affinity };
                let response = self.proxy.forward(*upstream, request, conditions).await?;
                Ok(response.map(ResponseBody::upstream))
            }
        }
    }

    fn redirect(
        &self,
        client: &Client,
        route: usize,
        redirect: &Redirect,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let (head, _) = request.into_parts();
        let view = RequestView::of(&head, client.peer)?;
        let params = self.snapshot.rules.params(route, &view.path);
        let response = redirect.response(&view, head.uri.path(), |name| params.get(name))?;
        Ok(response.map(ResponseBody::local))
    }

    /// Writes into a request who asks, and through whom, for the backend to see,
    /// and changes what the route says.
    fn introduce(
        &self,
        client: &Client,
        handling: &Handling,
        head: &mut Parts,
    ) -> Result<(), Failure> {
        strip_hop_by_hop(&mut head.headers);
        head.headers.remove(X_RATELIMIT_SOFT);
        // A target in absolute form names the host, maybe alone (RFC 9112, section 3.2.2).
        let target =
            head.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
        if let Some(Ok(host)) = target {
            head.headers.entry(HOST).or_insert(host);
        }
        let rules = &self.snapshot.rules;
        let is_trusted = rules.trusts(client.peer);
        if !is_trusted {
            rules.strip_claims(&mut head.headers);
        }
        client.forwarding.write(&mut head.headers, is_trusted, rules.speaks_forwarded());
        Via::write(&mut head.headers, head.version);
        if let Some(changes) = &handling.changes {
            changes.rewrite.apply(head)?;
            changes.request.apply(&mut head.headers);
        }
        Ok(())
    }

    /// Changes in an answer what the route says, whoever gives it.
    pub(super) fn change(&self, route: Option<usize>, is_local: bool, headers: &mut HeaderMap) {
        let handling = route.map(|route| &self.snapshot.routes[route]);
        match handling.and_then(|handling| handling.changes.as_ref()) {
            Some(changes) if is_local => changes.response.complete(headers),
            Some(changes) => changes.response.apply(headers),
            None => {}
        }
    }
}

/// What the backend says before its answer reaches the client, if it can.
fn relay_interim(client: &Client, request: &mut Request<RequestBody>) {
    if let Some(interim) = client.interim.as_ref().and_then(InterimQueue::open) {
        on_informational(request, move |response| {
            interim.send(response.status(), response.headers());
        });
    }
}
