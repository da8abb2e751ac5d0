//! Forwarding: choose an endpoint, send the request over a pooled connection,
//! stream both bodies.
//!
//! Connections, choices and budgets belong to one worker. What all workers share
//! of an upstream is an [`UpstreamShared`]: its endpoints, whether they are well,
//! and how many requests are in flight. It is kept up to date by [`look_after`].

mod attempt;
mod balance;
mod body;
mod check;
mod course;
mod endpoint;
mod fault;
mod fetch;
mod forward;
mod health;
mod member;
mod resolve;
mod retry;
mod roster;
mod settings;
mod shared;
mod tls;
mod upstream;

use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tokio::join;

pub use body::{BrokenResponse, Expectation, Progress, RequestBody, ResponseBody};
pub use fetch::{Document, DocumentSource, FetchError, fetch};
pub use resolve::resolve;
pub use settings::{
    Balance, CheckSettings, Conditions, EjectSettings, EndpointSettings, RetryCause, RetrySettings,
    RouteTimeouts, Target, UpstreamSettings,
};
pub use shared::{EndpointHealth, EndpointState, UpstreamShared};
pub use tls::{TlsError, TlsParts, TlsSettings};
pub use upstream::Pressure;

use crate::message::Failure;
use upstream::Upstream;

/// One worker's way to all upstreams.
#[derive(Debug)]
pub struct Proxy {
    upstreams: Vec<Rc<Upstream>>,
}

/// Looks up the names of an upstream's endpoints and checks whether they are
/// well, for as long as somebody holds the upstream. It needs one task, on
/// whichever thread.
pub fn look_after(upstream: &Arc<UpstreamShared>) -> impl Future<Output = ()> + use<> {
    let upstream = Arc::downgrade(upstream);
    async move {
        join!(resolve::repeatedly(upstream.clone()), check::repeatedly(upstream));
    }
}

impl Proxy {
    /// A way to `upstreams`.
    pub fn new(upstreams: &[Arc<UpstreamShared>]) -> Self {
        let upstreams = upstreams.iter().map(|shared| Rc::new(Upstream::new(Arc::clone(shared))));
        Self { upstreams: upstreams.collect() }
    }

    /// A way to other upstreams, with the connections to those that are among
    /// them still.
    pub fn renewed(&self, upstreams: &[Arc<UpstreamShared>]) -> Self {
        let upstreams = upstreams.iter().map(|shared| {
            let known = self.upstreams.iter().find(|it| Arc::ptr_eq(it.shared(), shared));
            known.cloned().unwrap_or_else(|| Rc::new(Upstream::new(Arc::clone(shared))))
        });
        Self { upstreams: upstreams.collect() }
    }

    /// How the upstream with index `upstream` is doing, as this worker sees it.
    pub fn pressure(&self, upstream: usize) -> Pressure {
        self.upstreams[upstream].pressure()
    }

    /// Closes the connections that have been idle for too long. To be called now
    /// and then: without traffic nobody else looks at them.
    pub fn close_expired(&self) {
        self.upstreams.iter().for_each(|upstream| upstream.close_expired());
    }

    /// Forwards `request` to the upstream with index `upstream`. Fields that
    /// belong to the client's connection must be gone from it.
    ///
    /// # Errors
    /// If there is no response that could be passed on.
    pub fn forward(
        &self,
        upstream: usize,
        request: Request<RequestBody>,
        conditions: Conditions<'_>,
    ) -> impl Future<Output = Result<Response<ResponseBody>, Failure>> {
        forward::forward(&self.upstreams[upstream], request, conditions)
    }
}
