//! The life of a request, on one screen: see `Gateway::handle`.

mod act;
mod body;
mod current;
mod entry;
mod exchange;
mod filters;
mod queue;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Body as _;

use crate::decision::{Outcome, RateLimiter, Room};
use crate::engine::{Engine, Judgement, Undecidable};
use crate::message::{Failure, Forwarding, has_unknown_expectation};
use crate::proxy::{Pressure, Proxy};
use crate::request::{Ambiguity, Malformed, RequestView};
use crate::server::{ClientBody, Demand, InterimQueue};
use crate::snapshot::{Action, Snapshot};
use crate::telemetry::WorkerLog;
use crate::time::{Clock, Timestamp};

pub use body::ResponseBody;
pub use current::CurrentGateway;
use exchange::Exchange;
use filters::Filters;
use queue::Queue;

/// One worker's gateway under one configuration: what it shares with the other
/// workers, and its own ways to the store and the upstreams. A request keeps the
/// one that it began with.
#[derive(Debug)]
pub struct Gateway {
    snapshot: Arc<Snapshot>,
    filters: Filters,
    engine: Engine,
    proxy: Proxy,
    queue: Rc<Queue>,
    log: Option<Rc<WorkerLog>>,
}

/// What all requests of one connection have in common.
#[derive(Debug)]
struct Client {
    peer: IpAddr,
    /// Whether the peer may speak for its clients, see [`RequestView::may_forward`].
    may_forward: bool,
    /// Who it is, by the certificate that it has shown.
    identity: Option<Arc<str>>,
    forwarding: Forwarding,
    /// How fast it must send the bodies of requests.
    demand: Demand,
    /// How it hears of interim responses, if it can.
    interim: Option<InterimQueue>,
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
        let (engine, log) = (Engine::new(limiter, clock), log.map(Rc::new));
        let filters = Filters::new(&snapshot);
        Self { snapshot, filters, engine, proxy, queue: Rc::default(), log }
    }

    /// The same worker's gateway under another configuration. Counters, requests
    /// that wait for their turn, and connections to upstreams that are still
    /// there stay what they are.
    fn renewed(&self, snapshot: Arc<Snapshot>) -> Self {
        Self {
            proxy: self.proxy.renewed(&snapshot.upstreams),
            filters: Filters::new(&snapshot),
            snapshot,
            engine: self.engine.clone(),
            queue: Rc::clone(&self.queue),
            log: self.log.clone(),
        }
    }

    /// What must be done now and then, whether requests come or not: lines of
    /// the access log that wait for others are written, connections that have
    /// been idle for too long are closed, and the store keeps its house.
    fn housekeep(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
        self.proxy.close_expired();
        self.engine.housekeep();
    }

    /// Ends this worker's part, when its last request has been answered.
    async fn close(&self) {
        self.engine.close().await;
    }

    /// The life of a request: name it, judge it, refuse it or act on it, answer
    /// it. What is told about limits and written down is the exchange's part.
    async fn handle(
        self: &Rc<Self>,
        client: &Client,
        request: Request<ClientBody>,
    ) -> Response<ResponseBody> {
        let wall = self.engine.clock().wall();
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
                self.act(client, &judgement, request, &mut exchange).await
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
        let view = RequestView::of(head, client.peer)?;
        let has_content = view.has_content || has_content;
        let tls_subject = client.identity.as_deref();
        let view =
            RequestView { tls_subject, has_content, may_forward: client.may_forward, ..view };
        let headroom = |route| self.room(route);
        self.engine.judge(&self.snapshot.rules, &view, wall, headroom).await.map_err(
            |undecidable| match undecidable {
                Undecidable::NoRoute => Failure::NoRoute,
                Undecidable::Ambiguous(ambiguity) => ambiguity.into(),
                Undecidable::Malformed(malformed) => malformed.into(),
            },
        )
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
