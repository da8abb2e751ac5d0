//! Forwarding: chooses an endpoint, sends the request over a pooled connection, and
//! streams both bodies.
//!
//! Each worker has its own connections, balancers and retry budgets. All workers share
//! one [`UpstreamShared`] for each upstream: its endpoints, their health, and the
//! number of requests in flight. [`maintain`] keeps it up to date.

mod attempt;
mod attempt_result;
mod balance;
mod body;
mod check;
mod endpoint;
mod endpoint_set;
mod endpoint_shared;
mod fault;
mod fetch;
mod fields_copy;
mod forward;
mod gradient;
mod health;
mod interim;
mod probe;
mod resolve;
mod response_body;
mod retry;
mod retry_state;
mod settings;
mod shared;
mod tls;
mod upstream;
mod warnings;

use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tokio::join;

pub use body::{Expectation, RequestBody};
#[cfg(any(test, feature = "fuzzing"))]
pub use endpoint::fuzzing;
pub use fetch::{Document, DocumentSource, FetchError, fetch};
pub use interim::InterimRelay;
pub use probe::{EndpointReport, probe};
pub use resolve::resolve;
pub use response_body::{BrokenResponse, ResponseBody};
pub use settings::{
    Balance, CheckSettings, EjectSettings, EndpointSettings, ForwardOptions, RetryCause,
    RetrySettings, RouteTimeouts, Target, UpstreamSettings,
};
pub use shared::{EndpointHealth, EndpointState, UpstreamShared};
pub use tls::{TlsError, TlsParts, TlsSettings};
pub use upstream::Pressure;

use crate::message::Failure;
use crate::telemetry::WorkerMetrics;
use endpoint::IdleRoom;
use upstream::Upstream;

/// One worker's access to all upstreams.
#[derive(Debug)]
pub struct Proxy {
    upstreams: Vec<Rc<Upstream>>,
    metrics: Rc<WorkerMetrics>,
    room: Rc<IdleRoom>,
}

/// Looks up the names of an upstream's endpoints and checks their health, as long as
/// the upstream is in use. One task on any thread must run this.
pub fn maintain(upstream: &Arc<UpstreamShared>) -> impl Future<Output = ()> + use<> {
    let upstream = Arc::downgrade(upstream);
    async move {
        join!(resolve::run(upstream.clone()), check::run(upstream));
    }
}

impl Proxy {
    /// Access to `upstreams`, which counts in `metrics`. Pools of connections that follow their use
    /// may together keep `idle_connections` more than what each of them may keep in any case.
    pub fn new(
        upstreams: &[Arc<UpstreamShared>],
        metrics: &Rc<WorkerMetrics>,
        idle_connections: usize,
    ) -> Self {
        let room = IdleRoom::new(idle_connections);
        let upstream = |shared| Rc::new(Upstream::new(Arc::clone(shared), metrics, &room));
        let upstreams = upstreams.iter().map(upstream).collect();
        Self { upstreams, metrics: Rc::clone(metrics), room }
    }

    /// Access to other upstreams after a reload. Upstreams that stay keep their
    /// connections.
    pub fn renewed(&self, upstreams: &[Arc<UpstreamShared>]) -> Self {
        let Self { metrics, room, .. } = self;
        let upstreams = upstreams.iter().map(|shared| {
            let known = self.upstreams.iter().find(|it| Arc::ptr_eq(it.shared(), shared));
            let new = || Rc::new(Upstream::new(Arc::clone(shared), metrics, room));
            known.cloned().unwrap_or_else(new)
        });
        let upstreams = upstreams.collect();
        Self { upstreams, metrics: Rc::clone(metrics), room: Rc::clone(room) }
    }

    /// The load of the upstream with index `upstream`, as this worker sees it.
    pub fn pressure(&self, upstream: usize) -> Pressure {
        self.upstreams[upstream].pressure()
    }

    /// Closes connections that have been idle for too long. Must be called regularly:
    /// requests do it too, but there may be none.
    pub fn close_expired(&self) {
        self.upstreams.iter().for_each(|upstream| upstream.close_expired());
        self.room.set_exhausted(false);
    }

    /// Forwards `request` to the upstream with index `upstream`. The request must not
    /// contain hop-by-hop fields of the client's connection. It is boxed, because the
    /// futures through which it passes would each contain it twice.
    ///
    /// # Errors
    /// If there is no response that can be relayed.
    pub fn forward(
        &self,
        upstream: usize,
        request: Box<Request<RequestBody>>,
        options: &ForwardOptions<'_>,
    ) -> impl Future<Output = Result<Response<ResponseBody>, Failure>> {
        forward::forward(&self.upstreams[upstream], request, options)
    }
}
