//! The life of a request, on one screen: see `Gateway::handle`.

mod body;
mod entry;
mod exchange;
mod owed;
mod queue;

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use hyper::ext::on_informational;
use tower::Service;

use crate::limiter::{Decision, Outcome, RateLimiter, Room, X_RATELIMIT_SOFT};
use crate::message::{
    Failure, Forwarding, Via, has_unknown_expectation, options, strip_hop_by_hop, take_hop,
};
use crate::proxy::{Pressure, Proxy, RequestBody};
use crate::request::{Malformed, RequestView};
use crate::server::{Interim, Peer};
use crate::snapshot::{Action, Snapshot};
use crate::telemetry::WorkerLog;
use crate::time::{Clock, Timestamp};

pub use body::ResponseBody;
use exchange::Exchange;
use queue::Queue;

/// One worker's gateway: what it shares with the others, and its own ways to
/// the store and the upstreams.
#[derive(Debug)]
pub struct Gateway {
    snapshot: Arc<Snapshot>,
    limiter: RateLimiter,
    proxy: Proxy,
    clock: Clock,
    queue: Queue,
    log: Option<WorkerLog>,
}

/// What all requests of one connection have in common.
#[derive(Debug)]
struct Client {
    peer: IpAddr,
    /// Who it is, by the certificate that it has shown.
    identity: Option<Arc<str>>,
    forwarding: Forwarding,
    /// The longest pause in a request's body.
    body_patience: Duration,
}

/// What rules and limiter say about a request.
#[derive(Debug)]
struct Judgement<'r> {
    /// The route's index.
    route: usize,
    /// Whose request it is.
    client_ip: IpAddr,
    decision: Decision<'r>,
}

impl Gateway {
    /// A gateway for one worker; without `log` nothing is written down.
    pub fn new(
        snapshot: Arc<Snapshot>,
        limiter: RateLimiter,
        proxy: Proxy,
        clock: Clock,
        log: Option<WorkerLog>,
    ) -> Self {
        Self { snapshot, limiter, proxy, clock, queue: Queue::default(), log }
    }

    /// The service for one connection from `peer`, in whose requests' bodies no
    /// pause is longer than `body_patience`.
    pub fn service(
        self: &Rc<Self>,
        peer: Peer,
        body_patience: Duration,
    ) -> impl Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>
    + Clone
    + use<> {
        let gateway = Rc::clone(self);
        let client = Rc::new(Client {
            peer: peer.address.ip(),
            forwarding: Forwarding::new(peer.address, peer.local, peer.is_encrypted),
            identity: peer.identity,
            body_patience,
        });
        tower::service_fn(move |request| {
            let (gateway, client) = (Rc::clone(&gateway), Rc::clone(&client));
            async move { Ok(gateway.handle(&client, request).await) }
        })
    }

    /// What must be done now and then, whether requests come or not: lines of
    /// the access log that wait for others are written, connections that have
    /// been idle for too long are closed, and the store keeps its house.
    pub fn housekeep(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
        self.proxy.close_expired();
        self.limiter.housekeep(self.clock.now());
    }

    /// Ends this worker's part, when its last request has been answered.
    pub async fn close(&self) {
        self.limiter.close(self.clock.now()).await;
    }

    /// The life of a request: name it, judge it, refuse it or act on it, answer
    /// it. What is told about limits and written down is the exchange's part.
    async fn handle(
        self: &Rc<Self>,
        client: &Client,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let now = self.clock.now();
        let (mut head, body) = request.into_parts();
        let mut exchange = Exchange::begin(self, client, &mut head, now);
        let Judgement { route, client_ip, mut decision } =
            match self.judge(client, &head, now).await {
                Ok(judgement) => judgement,
                Err(failure) => return exchange.end(Err(failure), None),
            };
        exchange.judged(route, client_ip, &mut decision);
        let answer = match decision.outcome {
            Outcome::Admit => {
                self.act(client, route, &decision, Request::from_parts(head, body), &mut exchange)
                    .await
            }
            Outcome::Refuse(retry) => Ok(exchange.refusal(&decision, retry)),
            Outcome::Unavailable(_) => Err(Failure::StoreAway),
            Outcome::Deny(_) => Err(Failure::KeyMissing),
        };
        exchange.end(answer, Some(&decision))
    }

    /// Which route, for whom, and what the limiter decides.
    async fn judge(
        &self,
        client: &Client,
        head: &Parts,
        now: Timestamp,
    ) -> Result<Judgement<'_>, Failure> {
        if let Some(malformed) = head.extensions.get::<Malformed>() {
            return Err((*malformed).into());
        }
        match head.method {
            Method::CONNECT => return Err(Failure::Tunnel),
            Method::TRACE => return Err(Failure::Trace),
            _ => {}
        }
        if has_unknown_expectation(head.version, &head.headers) {
            return Err(Failure::Expectation);
        }
        let rules = &self.snapshot.rules;
        let tls_subject = client.identity.as_deref();
        let view = RequestView { tls_subject, ..RequestView::of(head, client.peer)? };
        let matched = rules.select(&view).ok_or(Failure::NoRoute)?;
        let route = matched.index;
        let subject = rules.subject(&view, matched, now);
        let decision = self.limiter.decide(&subject, self.room(route), now).await;
        Ok(Judgement { route, client_ip: subject.client_ip(), decision })
    }

    /// Whether the upstream of a route has room for more than is promised.
    fn room(&self, route: usize) -> Room {
        let Action::Forward(upstream) = self.snapshot.routes[route].action else {
            return Room::default();
        };
        let Pressure { latency, in_flight_percent, is_slowing } = self.proxy.pressure(upstream);
        Room { latency, in_flight_percent, slowing: is_slowing }
    }

    /// What becomes of an admitted request.
    async fn act(
        &self,
        client: &Client,
        route: usize,
        decision: &Decision<'_>,
        request: Request<Incoming>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Response<ResponseBody>, Failure> {
        self.queue.hold(decision.delay).await?;
        let route = &self.snapshot.routes[route];
        match &route.action {
            Action::Respond(fixed) => Ok(fixed.response().map(ResponseBody::local)),
            Action::Forward(upstream) => {
                let (mut head, body) = request.into_parts();
                if !take_hop(&head.method, &mut head.headers) {
                    return Ok(options().map(ResponseBody::local));
                }
                let body = RequestBody::new(body, route.max_body_bytes, client.body_patience)?;
                self.introduce(client, &mut head);
                if decision.is_soft() {
                    head.headers.insert(X_RATELIMIT_SOFT, HeaderValue::from_static("over"));
                }
                exchange.forwarded(&mut head.headers, &body);
                let mut request = Request::from_parts(head, body);
                relay_interim(&mut request);
                let response = self.proxy.forward(*upstream, request, route.timeouts).await?;
                Ok(response.map(ResponseBody::upstream))
            }
        }
    }

    /// Writes into a request who asks, and through whom, for the backend to see.
    fn introduce(&self, client: &Client, head: &mut Parts) {
        strip_hop_by_hop(&mut head.headers);
        head.headers.remove(X_RATELIMIT_SOFT);
        // A target in absolute form names the host, maybe alone (RFC 9112, section 3.2.2).
        let target =
            head.uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
        if let Some(Ok(host)) = target {
            head.headers.entry(HOST).or_insert(host);
        }
        let is_trusted = self.snapshot.rules.trusts(client.peer);
        if !is_trusted {
            self.snapshot.rules.strip_claims(&mut head.headers);
        }
        client.forwarding.write(&mut head.headers, is_trusted);
        Via::write(&mut head.headers, head.version);
    }
}

/// What the backend says before its answer reaches the client, if it can.
fn relay_interim(request: &mut Request<RequestBody>) {
    if let Some(interim) = request.extensions_mut().remove::<Interim>() {
        on_informational(request, move |response| {
            interim.send(response.status(), response.headers());
        });
    }
}
