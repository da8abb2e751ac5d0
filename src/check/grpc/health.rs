//! Whether the services take calls: `grpc.health.v1.Health`.
//!
//! They do until the gateway stops, and if the configuration says so, only when the limits are
//! known. Without its store the gateway decides all the same, so it
//! does not stop then.

use std::future::ready;

use futures_util::StreamExt as _;
use futures_util::stream::once;
use http::{Request, Response};
use prost::Message;
use tokio::sync::watch;
use tollgate_core::drain::Drain;
use tollgate_core::refusal::grpc::Code as GrpcCode;

use super::body::AnswerBody;
use super::framing::{Failed, read, reply, stream};
use crate::check::settings::RpcServices;
use crate::grpc::frame;
use crate::server::ClientBody;

pub const CHECK: &str = "/grpc.health.v1.Health/Check";
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// The largest message.
const MAX_BYTES: usize = 4096;

#[derive(Clone, PartialEq, Eq, Message)]
pub struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub status: i32,
}

const SERVING: HealthCheckResponse = HealthCheckResponse { status: 1 };
const NOT_SERVING: HealthCheckResponse = HealthCheckResponse { status: 2 };
const SERVICE_UNKNOWN: HealthCheckResponse = HealthCheckResponse { status: 3 };

/// Whether calls are taken now.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Whether the gateway stops.
    pub drain: Drain,
    /// Whether the limits are known. None: it makes no difference.
    pub configured: Option<watch::Receiver<bool>>,
}

impl Readiness {
    /// Whether calls are taken now.
    pub fn is_ready(&self) -> bool {
        let is_configured = self.configured.as_ref().is_none_or(|it| *it.borrow());
        is_configured && !self.drain.is_requested()
    }
}

/// Whether there is a service of this name. The empty name stands for all of them.
fn is_known(name: &str, services: RpcServices) -> bool {
    match name {
        "" => true,
        "ratelimit" | "envoy.service.ratelimit.v3.RateLimitService" => services.ratelimit,
        "envoy.service.auth.v3.Authorization" => services.authorization,
        _ => false,
    }
}

/// Answers `Check`.
pub async fn check(
    services: RpcServices,
    readiness: &Readiness,
    request: Request<ClientBody>,
) -> Result<Response<AnswerBody>, Failed> {
    let question: HealthCheckRequest = read(request, MAX_BYTES).await?;
    if !is_known(&question.service, services) {
        return Err(Failed::new(GrpcCode::NotFound, "there is no such service"));
    }
    Ok(reply(if readiness.is_ready() { &SERVING } else { &NOT_SERVING }))
}

/// Answers `Watch`: the state now, and each later one, until the gateway stops.
pub async fn watch(
    services: RpcServices,
    readiness: &Readiness,
    request: Request<ClientBody>,
) -> Result<Response<AnswerBody>, Failed> {
    let question: HealthCheckRequest = read(request, MAX_BYTES).await?;
    let is_ready = readiness.is_ready();
    let first = match is_known(&question.service, services) {
        false => &SERVICE_UNKNOWN,
        true if is_ready => &SERVING,
        true => &NOT_SERVING,
    };
    let begins = is_known(&question.service, services) && !is_ready;
    let mut configured = readiness.configured.clone();
    let mut drain = readiness.drain.clone();
    let second = async move {
        match configured.as_mut().filter(|_| begins) {
            // The sender lives as long as the worker.
            Some(configured) => drop(configured.wait_for(|it| *it).await),
            None => std::future::pending().await,
        }
        frame(&SERVING)
    };
    let mut stopped = readiness.drain.clone();
    let later = once(async move {
        tokio::select! {
            second = second => Some(second),
            () = drain.requested() => None,
        }
    });
    let later = later.filter_map(ready);
    let last = once(async move {
        stopped.requested().await;
        frame(&NOT_SERVING)
    });
    Ok(stream(frame(first), later.chain(last)))
}
