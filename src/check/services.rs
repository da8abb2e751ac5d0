//! The services of one worker that answer questions, under the configuration in use.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tollgate_core::drain::Drain;
use tower::Service;

use super::grpc::AnswerBody;
use super::http::{ApiState, RateLimitService, Shared as SharedState};
use super::metrics::ServiceMetrics;
use super::settings::CheckSettings;
use super::{grpc, http as over_http};
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
    drain: Drain,
}

impl Services {
    /// Decides with this gateway, until `drain` begins. The workers of a node have `shared` in
    /// common. It must be called in the worker's runtime.
    pub fn new(
        gateway: &Rc<CurrentGateway>,
        settings: Arc<CheckSettings>,
        (shared, drain): (&Arc<SharedState>, Drain),
    ) -> Self {
        Self {
            api: ApiState::start(shared, gateway),
            rate_limits: ServiceMetrics::default(),
            gateway: Rc::clone(gateway),
            settings: RefCell::new(settings),
            drain,
        }
    }

    /// New questions see these settings from now on.
    pub fn reload(&self, settings: Arc<CheckSettings>) {
        self.settings.replace(settings);
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
            let (services, settings) = (Rc::clone(&services), services.settings.borrow().clone());
            Box::pin(async move {
                let Some(http) = &settings.http else { return Ok(over_http::closed()) };
                let rate_limits = services.rate_limit_service(&settings);
                let api = &services.api;
                Ok(over_http::answer(api, &gateway, http, rate_limits, &peer, request).await)
            })
        })
    }

    /// The rate limit service for questions over HTTP, if it is served over gRPC.
    fn rate_limit_service<'s>(
        &'s self,
        settings: &'s CheckSettings,
    ) -> Option<RateLimitService<'s>> {
        let grpc = settings.grpc.as_ref().filter(|it| it.services.ratelimit)?;
        let limits = &grpc.rate_limits;
        let metrics = &self.rate_limits;
        Some(RateLimitService { limits, metrics, drain: &self.drain })
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
            let drain = services.drain.clone();
            Box::pin(async move {
                let Some(settings) = settings else { return Ok(grpc::closed()) };
                let called = grpc::Called {
                    gateway: &gateway,
                    settings: &settings,
                    metrics: &metrics,
                    drain: &drain,
                };
                Ok(called.answer(&peer, request).await)
            })
        })
    }
}
