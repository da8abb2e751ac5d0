//! Questions over gRPC.

mod authorization;
mod body;
mod framing;
mod health;
mod messages;
pub mod ratelimit;
mod reflection;
mod stream;

use std::rc::Rc;

use http::{Request, Response};
use tollgate_core::refusal::grpc::Code as GrpcCode;

use super::rls::{Domains, InUse};
use super::settings::GrpcSettings;
use crate::gateway::Gateway;
use crate::server::{ClientBody, Peer};
use crate::telemetry::RateLimitMetrics;

pub use body::AnswerBody;
use framing::Failed;
pub use health::Readiness;
#[cfg(test)]
pub use reflection::DESCRIPTORS;

/// What answers calls.
#[derive(Clone, Copy, Debug)]
pub struct Called<'c> {
    pub gateway: &'c Rc<Gateway>,
    pub settings: &'c GrpcSettings,
    pub metrics: &'c RateLimitMetrics,
    /// The domains of the rate limit service, if they are known.
    pub domains: Option<&'c Domains>,
    pub readiness: &'c Readiness,
}

impl Called<'_> {
    /// Answers one call.
    pub async fn answer(self, peer: &Peer, request: Request<ClientBody>) -> Response<AnswerBody> {
        if let Err(status) = framing::is_call(request.method(), request.headers()) {
            let mut response = Response::new(AnswerBody::plain("send a call of gRPC\n".into()));
            *response.status_mut() = status;
            return response;
        }
        if !self.settings.listener.callers.include(peer.address.ip(), peer.uid) {
            let message = "check.grpc.trust does not include your address";
            return Failed::new(GrpcCode::PermissionDenied, message).response();
        }
        let answer = self.method(peer, request).await;
        answer.unwrap_or_else(|failed| failed.response())
    }

    /// Answers by the method that the path names.
    async fn method(
        self,
        peer: &Peer,
        request: Request<ClientBody>,
    ) -> Result<Response<AnswerBody>, Failed> {
        let Self { gateway, settings, metrics, domains, readiness } = self;
        match request.uri().path() {
            ratelimit::PATH if settings.services.ratelimit => {
                let in_use = InUse { limits: &settings.rate_limits, domains };
                ratelimit::answer(gateway, in_use, metrics, request).await
            }
            reflection::V1 | reflection::V1_ALPHA if settings.reflection => {
                Ok(reflection::answer(settings.services, &readiness.drain, request))
            }
            health::CHECK => health::check(settings.services, readiness, request).await,
            health::WATCH => health::watch(settings.services, readiness, request).await,
            authorization::PATH if settings.services.authorization => {
                authorization::answer(gateway, peer, request).await
            }
            _ => Err(Failed::new(GrpcCode::Unimplemented, "there is no such method")),
        }
    }
}

/// The answer on a connection whose listener is about to close.
pub fn closed() -> Response<AnswerBody> {
    let message = "the configuration has no check.grpc any more";
    Failed::new(GrpcCode::Unavailable, message).response()
}
