//! Whether the services take calls: `grpc.health.v1.Health`.
//!
//! They do until the gateway stops. Without its store the gateway decides all the same, so it
//! does not stop then.

use http::{Request, Response};
use prost::Message;
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
    drain: &Drain,
    request: Request<ClientBody>,
) -> Result<Response<AnswerBody>, Failed> {
    let question: HealthCheckRequest = read(request, MAX_BYTES).await?;
    if !is_known(&question.service, services) {
        return Err(Failed::new(GrpcCode::NotFound, "there is no such service"));
    }
    Ok(reply(if drain.is_requested() { &NOT_SERVING } else { &SERVING }))
}

/// Answers `Watch`: the state now, and, when the gateway stops, the last one.
pub async fn watch(
    services: RpcServices,
    drain: &Drain,
    request: Request<ClientBody>,
) -> Result<Response<AnswerBody>, Failed> {
    let question: HealthCheckRequest = read(request, MAX_BYTES).await?;
    let first = match is_known(&question.service, services) {
        false => &SERVICE_UNKNOWN,
        true if drain.is_requested() => &NOT_SERVING,
        true => &SERVING,
    };
    let mut drain = drain.clone();
    let last = async move {
        drain.requested().await;
        frame(&NOT_SERVING)
    };
    Ok(stream(frame(first), last))
}
