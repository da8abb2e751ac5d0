//! The gateway of a worker: what requests need under one configuration. Their life is in
//! [`life`].

mod additions;
mod ask_usage;
mod asking;
mod authorize;
mod authorized;
mod authorizer;
mod banned;
mod body;
mod closing;
mod completing;
mod compressing;
mod current;
mod dispatch;
mod exchange;
mod filters;
mod life;
mod negotiated;
mod overflow;
mod queue;
mod reading;
mod record;
mod refusing;
mod withholding;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::decision::{Claims, Decision, Headroom, Report};
use tollgate_core::drain::Drain;
use tollgate_core::policy::Policy;
use tollgate_core::routes::Destination;

use crate::engine::{Engine, Explaining, StoreCall};
use crate::message::Forwarding;
use crate::proxy::{Pressure, Proxy};
use crate::server::{ClientLink, Demand};
use crate::snapshot::Snapshot;
use crate::telemetry::{CompressionMetrics, RequestMetrics, RouteLabels, Sinks, WorkerMetrics};

pub use authorize::{Answers, Question, QuestionForm};
use authorizer::Authorizer;
use banned::Banned;
pub use body::ResponseBody;
use compressing::Compressing;
pub use current::CurrentGateway;
use filters::Filters;
use queue::Queue;
pub use reading::BodyRoom;
#[cfg(test)]
pub use record::{record_decision, record_settlement};

/// One worker's gateway under one configuration. The snapshot is shared with the other
/// workers. The connections to the store and the upstreams belong to this worker. A
/// request keeps the gateway with which it began.
#[derive(Debug)]
pub struct Gateway {
    snapshot: Arc<Snapshot>,
    filters: Filters,
    engine: Engine,
    proxy: Rc<Proxy>,
    queue: Rc<Queue>,
    /// The responses to banned clients that are held back.
    banned: Rc<Banned>,
    compressing: Compressing,
    bodies: BodyRoom,
    /// By their index.
    authorizers: Box<[Rc<Authorizer>]>,
    sinks: Rc<Sinks>,
    worker_metrics: Rc<WorkerMetrics>,
    metrics: Rc<RequestMetrics>,
}

/// What all requests of one connection have in common.
#[derive(Debug)]
pub struct Client {
    peer: IpAddr,
    /// Whether the peer may name the addresses of its own clients, see
    /// [`PeerView`].
    may_forward: bool,
    /// The subject of its certificate.
    identity: Option<Arc<str>>,
    forwarding: Forwarding,
    /// How fast it must send the bodies of requests.
    demand: Demand,
    /// Writes to the client beside the responses. None over HTTP/2.
    link: Option<ClientLink>,
}

impl Gateway {
    /// A gateway for one worker, whose requests are recorded for `sinks` and counted in
    /// `metrics`. When `drain` begins, no response is held back any more.
    pub fn new(
        snapshot: Arc<Snapshot>,
        engine: Engine,
        proxy: Proxy,
        sinks: Sinks,
        bodies: BodyRoom,
        drain: Drain,
        metrics: &Rc<WorkerMetrics>,
    ) -> Self {
        Self {
            filters: Filters::new(&snapshot),
            metrics: request_metrics(metrics, &snapshot),
            worker_metrics: Rc::clone(metrics),
            engine,
            proxy: Rc::new(proxy),
            queue: Rc::default(),
            banned: Rc::new(Banned::new(drain, metrics)),
            compressing: Compressing::new(CompressionMetrics::new(metrics)),
            bodies,
            authorizers: Authorizer::all(&snapshot, &[], metrics),
            snapshot,
            sinks: Rc::new(sinks),
        }
    }

    /// The same worker's gateway under another configuration. It keeps the counters, the
    /// delayed requests, and the connections to upstreams that have not changed.
    fn renewed(&self, snapshot: Arc<Snapshot>) -> Self {
        Self {
            proxy: Rc::new(self.proxy.renewed(&snapshot.upstreams)),
            filters: Filters::new(&snapshot),
            metrics: request_metrics(&self.worker_metrics, &snapshot),
            worker_metrics: Rc::clone(&self.worker_metrics),
            authorizers: Authorizer::all(&snapshot, &self.authorizers, &self.worker_metrics),
            snapshot,
            engine: self.engine.clone(),
            queue: Rc::clone(&self.queue),
            banned: Rc::clone(&self.banned),
            compressing: self.compressing.clone(),
            bodies: self.bodies.clone(),
            sinks: Rc::clone(&self.sinks),
        }
    }

    /// The configuration of its requests.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// What the worker counts.
    pub const fn worker_metrics(&self) -> &Rc<WorkerMetrics> {
        &self.worker_metrics
    }

    /// What decides on its requests.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Judges the claims of questions, and counts the decision. See [`Engine::judge_claims`].
    pub async fn judge_claims<'r>(
        &self,
        claims: &mut Claims<&'r Arc<Policy>>,
        headroom: Headroom,
        shown: impl Fn(&Report<&Arc<Policy>>) -> String,
    ) -> Decision<&'r Arc<Policy>> {
        let decision = self.engine.judge_claims(claims, headroom, shown).await;
        self.metrics.decided(&[], &decision);
        decision
    }

    /// Counts the decision on a question. Its policies are those of the configuration.
    pub fn decided(&self, decision: &Decision<&Arc<Policy>>) {
        self.metrics.decided(&[], decision);
    }

    /// See [`CurrentGateway::housekeep`].
    fn housekeep(&self) {
        self.sinks.flush();
        self.proxy.close_expired();
        self.engine.housekeep();
    }

    /// See [`CurrentGateway::answer`].
    async fn answer(&self, call: StoreCall) {
        let headroom = |destination| Some(self.headroom(destination));
        let Snapshot { rules, headers, patches, .. } = &*self.snapshot;
        let overflow =
            |route: usize, decision: &Decision<&Arc<Policy>>| self.overflow_from(route, decision);
        let explaining =
            Explaining { rules, headers, patches, headroom: &headroom, overflow: &overflow };
        self.engine.answer(call, &explaining).await;
    }

    /// See [`CurrentGateway::close`].
    async fn close(&self) {
        self.engine.close().await;
    }

    /// Whether the peer is a proxy that may speak for its clients.
    fn is_trusted(&self, client: &Client) -> bool {
        client.may_forward && self.snapshot.rules.clients().trusts(client.peer)
    }

    /// The headroom of an upstream, for elastic limits.
    pub fn headroom(&self, Destination { route, branch }: Destination) -> Headroom {
        let Some(upstream) = self.snapshot.routes[route].action.upstream(branch) else {
            return Headroom::default();
        };
        let Pressure { latency, in_flight_percent, is_slowing } = self.proxy.pressure(upstream);
        Headroom { latency, in_flight_percent, slowing: is_slowing }
    }
}

/// Metrics of the requests of one worker under this configuration.
fn request_metrics(worker: &Rc<WorkerMetrics>, snapshot: &Snapshot) -> Rc<RequestMetrics> {
    let routes = || (0..snapshot.routes.len()).map(|index| snapshot.rules.route(index));
    let labels = routes().map(|route| RouteLabels {
        name: (&*route.name).into(),
        pattern: route.path.to_string().into(),
    });
    let policies = routes().map(|route| route.policies.len()).sum();
    Rc::new(RequestMetrics::new(worker, labels.collect(), policies))
}
