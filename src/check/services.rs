//! The services of one worker that answer questions, under the configuration in use.

use std::cell::{OnceCell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tollgate_limiter::drain::Drain;
use tower::Service;

use super::grpc::AnswerBody;
use super::http::{ApiState, Shared as SharedState};
use super::settings::CheckSettings;
use super::{grpc, http as over_http};
use crate::gateway::{CurrentGateway, ResponseBody};
use crate::server::{ClientBody, Peer};
use crate::telemetry::RateLimitMetrics;

/// The services of one worker that answer questions. A question keeps the configuration with
/// which it began.
#[derive(Debug)]
pub(crate) struct Services {
    gateway: Rc<CurrentGateway>,
    settings: RefCell<Arc<CheckSettings>>,
    api: Rc<ApiState>,
    /// Made for the first connection over gRPC: without one, there are no such metrics.
    rate_limits: OnceCell<Rc<RateLimitMetrics>>,
    drain: Drain,
}

impl Services {
    /// Decides with this gateway, until `drain` begins. The workers of a node have `shared` in
    /// common. It must be called in the worker's runtime.
    pub(crate) fn new(
        gateway: &Rc<CurrentGateway>,
        settings: Arc<CheckSettings>,
        (shared, drain): (&Arc<SharedState>, Drain),
    ) -> Self {
        Self {
            api: ApiState::start(shared, gateway),
            rate_limits: OnceCell::new(),
            gateway: Rc::clone(gateway),
            settings: RefCell::new(settings),
            drain,
        }
    }

    /// New questions see these settings from now on.
    pub(crate) fn reload(&self, settings: Arc<CheckSettings>) {
        self.settings.replace(settings);
    }

    /// The service for one connection over HTTP.
    pub(crate) fn http(
        self: &Rc<Self>,
        peer: Peer,
    ) -> impl Service<Request<ClientBody>, Response = Response<ResponseBody>, Error = Infallible>
    + Clone
    + use<> {
        let (services, peer) = (Rc::clone(self), Rc::new(peer));
        tower::service_fn(move |request| {
            let (gateway, peer) = (services.gateway.get(), Rc::clone(&peer));
            let settings = services.settings.borrow().http.clone();
            let api = Rc::clone(&services.api);
            Box::pin(async move {
                let Some(settings) = settings else { return Ok(over_http::closed()) };
                Ok(over_http::answer(&api, &gateway, &settings, &peer, request).await)
            })
        })
    }

    /// The service for one connection over gRPC.
    pub(crate) fn grpc(
        self: &Rc<Self>,
        peer: Peer,
    ) -> impl Service<Request<ClientBody>, Response = Response<AnswerBody>, Error = Infallible>
    + Clone
    + use<> {
        let (services, peer) = (Rc::clone(self), Rc::new(peer));
        let made = || Rc::new(RateLimitMetrics::new(self.gateway.get().worker_metrics()));
        let metrics = Rc::clone(self.rate_limits.get_or_init(made));
        tower::service_fn(move |request| {
            let (gateway, peer) = (services.gateway.get(), Rc::clone(&peer));
            let settings = services.settings.borrow().grpc.clone();
            let (metrics, drain) = (Rc::clone(&metrics), services.drain.clone());
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
