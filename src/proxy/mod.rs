//! Forwarding: choose an endpoint, send the request over a pooled connection,
//! stream both bodies.
//!
//! Everything here belongs to one worker and is not shared, except the count of
//! requests in flight of an upstream that bounds them.

mod balance;
mod body;
mod endpoint;
mod forward;
mod settings;
mod upstream;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use http::uri::Authority;
use http::{Request, Response};

pub use body::{BrokenResponse, Progress, RequestBody, ResponseBody};
pub use settings::{Balance, EndpointSettings, RouteTimeouts, Target, UpstreamSettings};
pub use upstream::{Pressure, UpstreamShared};

use crate::message::Failure;
use crate::time::monotonic;
use upstream::Upstream;

/// One worker's way to all upstreams.
#[derive(Debug)]
pub struct Proxy {
    upstreams: Vec<Rc<Upstream>>,
    echo: Authority,
    rng: RefCell<Rng>,
}

impl Proxy {
    /// A way to `upstreams`; `echo` is where `builtin:echo` listens.
    pub fn new(upstreams: &[Arc<UpstreamShared>], echo: &Authority) -> Self {
        let upstreams =
            upstreams.iter().map(|shared| Rc::new(Upstream::new(Arc::clone(shared), echo)));
        let upstreams = upstreams.collect();
        Self { upstreams, echo: echo.clone(), rng: RefCell::new(Rng::new()) }
    }

    /// A way to other upstreams, with the connections to those that are among
    /// them still.
    pub fn renewed(&self, upstreams: &[Arc<UpstreamShared>]) -> Self {
        let upstreams = upstreams.iter().map(|shared| {
            let known = self.upstreams.iter().find(|it| Arc::ptr_eq(it.shared(), shared));
            known.cloned().unwrap_or_else(|| Rc::new(Upstream::new(Arc::clone(shared), &self.echo)))
        });
        let upstreams = upstreams.collect();
        Self { upstreams, echo: self.echo.clone(), rng: RefCell::new(Rng::new()) }
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
    pub async fn forward(
        &self,
        upstream: usize,
        request: Request<RequestBody>,
        timeouts: RouteTimeouts,
    ) -> Result<Response<ResponseBody>, Failure> {
        let upstream = &self.upstreams[upstream];
        let lease = upstream.lease(&mut self.rng.borrow_mut())?;
        let started = monotonic();
        let response = forward::forward(lease, request, timeouts).await?;
        upstream.observe(monotonic().duration_since(started).into());
        Ok(response)
    }
}
