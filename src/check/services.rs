//! The services of one worker that answer questions, under the configuration in use.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tokio::sync::watch;
use tollgate_core::drain::Drain;
use tower::Service;

use super::grpc::{AnswerBody, Readiness};
use super::http::{ApiState, RateLimitService, Shared as SharedState};
use super::metrics::ServiceMetrics;
use super::rls::{Domains, InUse};
use super::settings::{CheckSettings, GrpcSettings};
use super::{grpc, http as over_http};
use crate::boxed::boxed;
use crate::gateway::{CurrentGateway, ResponseBody};
use crate::server::{ClientBody, Peer};

/// The services of one worker that answer questions. A question keeps the configuration with
/// which it began.
#[derive(Debug)]
pub struct Services {
    gateway: Rc<CurrentGateway>,
    settings: RefCell<Arc<CheckSettings>>,
    api: Rc<ApiState>,
    rate_limits: ServiceMetrics,
    /// The domains that another server has told. None: none yet.
    told: RefCell<Option<Rc<Told>>>,
    /// Whether there are any.
    configured: watch::Sender<bool>,
    drain: Drain,
}

/// What another server has told.
#[derive(Debug)]
struct Told {
    domains: Arc<Domains>,
}

impl Services {
    /// Decides with this gateway, until `drain` begins. The workers of a node have `shared` in
    /// common. It must be called in the worker's runtime.
    pub fn new(
        gateway: &Rc<CurrentGateway>,
        settings: Arc<CheckSettings>,
        shared: &Arc<SharedState>,
        drain: Drain,
    ) -> Self {
        Self {
            api: ApiState::start(shared, gateway),
            rate_limits: ServiceMetrics::default(),
            gateway: Rc::clone(gateway),
            settings: RefCell::new(settings),
            told: RefCell::default(),
            configured: watch::Sender::new(false),
            drain,
        }
    }

    /// New questions see these settings from now on.
    pub fn reload(&self, settings: Arc<CheckSettings>) {
        self.settings.replace(settings);
    }

    /// Another server has told these domains. New questions see them from now on.
    pub fn set_told(&self, told: Option<Arc<Domains>>) {
        self.configured.send_replace(told.is_some());
        self.told.replace(told.map(|domains| Rc::new(Told { domains })));
    }

    /// What another server has told. A question keeps it, without a count that workers share.
    fn told(&self) -> Option<Rc<Told>> {
        self.told.borrow().clone()
    }

    /// Whether calls are taken.
    fn readiness(&self, settings: &GrpcSettings) -> Readiness {
        let waits = settings.xds.as_ref().is_some_and(|xds| xds.wait);
        let configured = waits.then(|| self.configured.subscribe());
        Readiness { drain: self.drain.clone(), configured }
    }

    /// The service for one connection over HTTP.
    pub fn http(
        self: &Rc<Self>,
        peer: Peer,
    ) -> impl Service<Request<ClientBody>, Response = Response<ResponseBody>, Error = Infallible>
    + Clone
    + use<> {
        let services = Rc::clone(self);
        let peer = Rc::new(peer);
        tower::service_fn(move |request| {
            let gateway = services.gateway.get();
            let peer = Rc::clone(&peer);
            let services = Rc::clone(&services);
            let settings = services.settings.borrow().clone();
            boxed(|| async move {
                let Some(http) = &settings.http else { return Ok(over_http::closed()) };
                let grpc = settings.grpc.as_ref().filter(|it| it.services.ratelimit);
                let told = services.told();
                let readiness = grpc.map(|it| services.readiness(it));
                let rate_limits = grpc.zip(readiness.as_ref()).map(|(grpc, readiness)| {
                    let in_use = in_use(grpc, told.as_deref());
                    RateLimitService { in_use, metrics: &services.rate_limits, readiness }
                });
                let api = &services.api;
                Ok(over_http::answer(api, &gateway, http, rate_limits, &peer, request).await)
            })
        })
    }

    /// The service for one connection over gRPC.
    pub fn grpc(
        self: &Rc<Self>,
        peer: Peer,
    ) -> impl Service<Request<ClientBody>, Response = Response<AnswerBody>, Error = Infallible>
    + Clone
    + use<> {
        let services = Rc::clone(self);
        let peer = Rc::new(peer);
        let metrics = Rc::clone(self.rate_limits.of(&self.gateway.get()));
        tower::service_fn(move |request| {
            let gateway = services.gateway.get();
            let peer = Rc::clone(&peer);
            let settings = services.settings.borrow().grpc.clone();
            let metrics = Rc::clone(&metrics);
            let told = services.told();
            let readiness = settings.as_ref().map(|it| services.readiness(it));
            boxed(|| async move {
                let (Some(settings), Some(readiness)) = (settings, readiness) else {
                    return Ok(grpc::closed());
                };
                let called = grpc::Called {
                    gateway: &gateway,
                    settings: &settings,
                    metrics: &metrics,
                    domains: in_use(&settings, told.as_deref()).domains,
                    readiness: &readiness,
                };
                Ok(called.answer(&peer, request).await)
            })
        })
    }
}

/// What the rate limit service knows, if another server has told these domains.
fn in_use<'l>(settings: &'l GrpcSettings, told: Option<&'l Told>) -> InUse<'l> {
    let limits = &settings.rate_limits;
    let domains = match &settings.xds {
        Some(_) => told.map(|it| &*it.domains),
        None => Some(&limits.domains),
    };
    InUse { limits, domains }
}
