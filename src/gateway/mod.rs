//! The life of a request, on one screen: see `Gateway::handle`.

mod body;
mod current;
mod dispatch;
mod exchange;
mod filters;
mod owed;
mod queue;
mod record;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Body as _;

use crate::limiter::{Decision, Outcome, RateLimiter, Room};
use crate::message::{Failure, Forwarding, has_unknown_expectation};
use crate::proxy::{Pressure, Proxy};
use crate::request::{Ambiguity, Malformed, RequestView};
use crate::rules::Unmatched;
use crate::server::{ClientBody, Demand, InterimQueue};
use crate::snapshot::{Action, Snapshot};
use crate::telemetry::Sinks;
use crate::time::{Clock, Timestamp};

pub use body::ResponseBody;
pub use current::CurrentGateway;
use exchange::Exchange;
use filters::Filters;
use queue::Queue;

/// One worker's gateway under one configuration. The snapshot is shared with the other
/// workers. The connections to the store and the upstreams belong to this worker. A
/// request keeps the gateway with which it began.
#[derive(Debug)]
pub struct Gateway {
    snapshot: Arc<Snapshot>,
    filters: Filters,
    limiter: Rc<RateLimiter>,
    proxy: Proxy,
    clock: Clock,
    queue: Rc<Queue>,
    sinks: Rc<Sinks>,
}

/// What all requests of one connection have in common.
#[derive(Debug)]
struct Client {
    peer: IpAddr,
    /// Whether the peer may name the addresses of its own clients, see
    /// [`RequestView::may_forward`].
    may_forward: bool,
    /// The subject of its certificate.
    identity: Option<Arc<str>>,
    forwarding: Forwarding,
    /// How fast it must send the bodies of requests.
    demand: Demand,
    /// Sends interim responses, if the client can receive them.
    interim: Option<InterimQueue>,
}

/// What rules and limiter say about a request.
#[derive(Debug)]
struct Judgement<'r> {
    /// The route's index.
    route: usize,
    /// Whose request it is.
    client_ip: IpAddr,
    /// Which endpoint it would have, where that goes by a key.
    affinity: Option<u64>,
    decision: Decision<'r>,
}

impl Gateway {
    /// A gateway for one worker, whose requests are recorded for `sinks`.
    pub fn new(
        snapshot: Arc<Snapshot>,
        limiter: RateLimiter,
        proxy: Proxy,
        clock: Clock,
        sinks: Sinks,
    ) -> Self {
        let (limiter, sinks) = (Rc::new(limiter), Rc::new(sinks));
        let filters = Filters::new(&snapshot);
        Self { snapshot, filters, limiter, proxy, clock, queue: Rc::default(), sinks }
    }

    /// The same worker's gateway under another configuration. It keeps the counters, the
    /// delayed requests, and the connections to upstreams that have not changed.
    fn renewed(&self, snapshot: Arc<Snapshot>) -> Self {
        Self {
            proxy: self.proxy.renewed(&snapshot.upstreams),
            filters: Filters::new(&snapshot),
            snapshot,
            limiter: Rc::clone(&self.limiter),
            clock: self.clock.clone(),
            queue: Rc::clone(&self.queue),
            sinks: Rc::clone(&self.sinks),
        }
    }

    /// See [`CurrentGateway::housekeep`].
    fn housekeep(&self) {
        self.sinks.flush();
        self.proxy.close_expired();
        self.limiter.housekeep(self.clock.now());
    }

    /// See [`CurrentGateway::close`].
    async fn close(&self) {
        self.limiter.close(self.clock.now()).await;
    }

    /// The life of a request: give it an id, judge it, refuse or dispatch it, and complete
    /// its response. The exchange adds the fields about limits and makes the record.
    async fn handle(
        self: &Rc<Self>,
        client: &Client,
        request: Request<ClientBody>,
    ) -> Response<ResponseBody> {
        let wall = self.clock.wall();
        let (mut head, body) = request.into_parts();
        let mut exchange = Exchange::begin(self, client, &mut head, wall);
        let has_content = !body.is_end_stream();
        let mut judgement = match self.judge(client, &head, has_content, wall).await {
            Ok(judgement) => judgement,
            Err(failure) => return exchange.end(Err(failure), None),
        };
        exchange.judged(&mut judgement);
        let answer = match judgement.decision.outcome {
            Outcome::Admit => {
                let request = Request::from_parts(head, body);
                self.dispatch(client, &judgement, request, &mut exchange).await
            }
            Outcome::Refuse(retry) => Ok(exchange.refusal(&judgement.decision, retry)),
            Outcome::Unavailable(_) => Err(Failure::StoreAway),
            Outcome::Unverifiable(..) => Err(Failure::KeysAway),
            Outcome::Deny(_) => Err(Failure::KeyMissing),
            Outcome::Ambiguous(_) => Err(Ambiguity::ManyKeys.into()),
            Outcome::Unauthorized(_, fault) => Err(fault.into()),
        };
        exchange.end(answer, Some(&judgement.decision))
    }

    /// Which route, for whom, and what the limiter decides. Tokens expire by
    /// `wall`.
    async fn judge(
        &self,
        client: &Client,
        head: &Parts,
        has_content: bool,
        wall: Timestamp,
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
        let view = RequestView::of(head, client.peer)?;
        let has_content = view.has_content || has_content;
        let view =
            RequestView { tls_subject, has_content, may_forward: client.may_forward, ..view };
        if rules.has_disguised_name(view.headers) {
            return Err(Malformed::DisguisedName.into());
        }
        let matched = rules.select(&view).map_err(|unmatched| match unmatched {
            Unmatched::NoRoute => Failure::NoRoute,
            Unmatched::Ambiguous => Ambiguity::TwoRoutes.into(),
        })?;
        let route = matched.index;
        let subject = rules.subject(&view, matched, wall);
        let now = self.clock.now();
        let decision = self.limiter.decide(&subject, self.room(route), now).await;
        let (client_ip, affinity) = (subject.client_ip(), subject.affinity());
        Ok(Judgement { route, client_ip, affinity, decision })
    }

    /// Whether the upstream of a route has room for more than is promised.
    fn room(&self, route: usize) -> Room {
        let Action::Forward(upstream) = self.snapshot.routes[route].action else {
            return Room::default();
        };
        let Pressure { latency, in_flight_percent, is_slowing } = self.proxy.pressure(upstream);
        Room { latency, in_flight_percent, slowing: is_slowing }
    }
}
