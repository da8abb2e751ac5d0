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
mod fallback;
mod fault;
mod fetch;
mod fields_copy;
mod forward;
mod gradient;
mod health;
mod interim;
mod limit;
mod mirror;
mod probe;
mod reserve;
mod resolve;
mod response_body;
mod retry;
mod retry_state;
mod settings;
mod shared;
mod tls;
mod upstream;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tokio::join;

pub use body::{BodyReader, Expectation, RequestBody};
#[cfg(any(test, feature = "fuzzing"))]
pub use endpoint::fuzzing;
pub use fallback::{FallbackCause, FallbackSettings};
pub use fetch::{Document, DocumentSource, FetchError, fetch};
pub use interim::InterimRelay;
pub use limit::ConnectionSettings;
pub use mirror::{MirrorSettings, Mirrored};
pub use probe::{EndpointReport, probe};
pub use resolve::{lookup, resolve};
pub use response_body::{BrokenResponse, ResponseBody};
pub use settings::{
    Balance, CheckSettings, EjectSettings, EndpointSettings, ForwardOptions, ForwardedClient,
    RetryCause, RetrySettings, RouteTimeouts, Target, UpstreamSettings,
};
pub use shared::{EndpointHealth, EndpointState, UpstreamShared};
pub use tls::{TlsError, TlsParts, TlsSettings};
pub use upstream::Pressure;

use crate::boxed::boxed;
use crate::message::Failure;
use crate::telemetry::{MirrorMetrics, WorkerMetrics};
use endpoint::IdleRoom;
use mirror::Mirror;
use upstream::Upstream;

/// One worker's access to all upstreams.
#[derive(Debug)]
pub struct Proxy {
    upstreams: Vec<Rc<Upstream>>,
    /// Upstreams that get copies of requests, with connections of their own.
    mirrors: RefCell<Vec<Mirror>>,
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
        Self { upstreams, mirrors: RefCell::default(), metrics: Rc::clone(metrics), room }
    }

    /// Access to other upstreams after a reload. Upstreams that stay keep their
    /// connections.
    pub fn renewed(&self, upstreams: &[Arc<UpstreamShared>]) -> Self {
        let Self { metrics, room, .. } = self;
        let mut mirrors = self.mirrors.borrow().clone();
        mirrors.retain(|it| {
            upstreams.iter().any(|shared| Arc::ptr_eq(it.upstream().shared(), shared))
        });
        let upstreams = upstreams.iter().map(|shared| {
            let known = self.upstreams.iter().find(|it| Arc::ptr_eq(it.shared(), shared));
            let new = || Rc::new(Upstream::new(Arc::clone(shared), metrics, room));
            known.cloned().unwrap_or_else(new)
        });
        let upstreams = upstreams.collect();
        let mirrors = RefCell::new(mirrors);
        Self { upstreams, mirrors, metrics: Rc::clone(metrics), room: Rc::clone(room) }
    }

    /// The load of the upstream with index `upstream`, as this worker sees it.
    pub fn pressure(&self, upstream: usize) -> Pressure {
        self.upstreams[upstream].pressure()
    }

    /// Closes connections that have been idle for too long. Must be called regularly:
    /// requests do it too, but there may be none.
    pub fn close_expired(&self) {
        self.upstreams.iter().for_each(|upstream| upstream.close_expired());
        self.mirrors.borrow().iter().for_each(|mirror| mirror.upstream().close_expired());
        self.room.set_exhausted(false);
    }

    /// What mirrors requests to the upstream with this index.
    pub fn mirror(&self, upstream: usize) -> Mirror {
        let shared = self.upstreams[upstream].shared();
        let mut mirrors = self.mirrors.borrow_mut();
        let known = mirrors.iter().find(|it| Arc::ptr_eq(it.upstream().shared(), shared));
        if let Some(known) = known {
            return known.clone();
        }
        // Its idle connections take no room from those of requests.
        let upstream = Upstream::new(Arc::clone(shared), &self.metrics, &IdleRoom::new(0));
        let metrics = MirrorMetrics::new(&self.metrics, &shared.settings().name);
        let mirror = Mirror::new(Rc::new(upstream), metrics);
        mirrors.push(mirror.clone());
        mirror
    }

    /// Forwards `request` to the upstream with index `upstream`, and if that fails perhaps to its
    /// fallback. The request must not contain hop-by-hop fields of the client's connection. It is
    /// boxed, because the futures through which it passes would each contain it twice.
    ///
    /// # Errors
    /// If there is no response that can be relayed.
    pub async fn forward(
        &self,
        upstream: usize,
        request: Box<Request<RequestBody>>,
        fallback: Option<&FallbackSettings>,
        options: &ForwardOptions<'_>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let first = &self.upstreams[upstream];
        match fallback {
            None => forward::forward(first, request, options).await,
            Some(settings) => {
                let second = &self.upstreams[settings.upstream];
                // Boxed, because most routes have no fallback, and the future is large.
                boxed(|| forward::forward_with_fallback(first, second, settings, request, options))
                    .await
            }
        }
    }
}
