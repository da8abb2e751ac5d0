//! Questions over gRPC.

use http::{Request, Response};

use super::settings::GrpcSettings;
use crate::gateway::{Gateway, ResponseBody};
use crate::message::{GrpcCode, grpc_failure};
use crate::server::{ClientBody, Peer};

/// Answers one call.
pub(super) async fn answer(
    _gateway: &Gateway,
    settings: &GrpcSettings,
    peer: &Peer,
    _request: Request<ClientBody>,
) -> Response<ResponseBody> {
    if !settings.trust.includes(peer.address.ip()) {
        return failed(
            GrpcCode::PermissionDenied,
            "check.grpc.trust does not include your address",
        );
    }
    failed(GrpcCode::Unimplemented, "there is no such method")
}

/// The answer on a connection whose listener is about to close.
pub(super) fn closed() -> Response<ResponseBody> {
    failed(GrpcCode::Unavailable, "the configuration has no check.grpc any more")
}

fn failed(code: GrpcCode, message: &str) -> Response<ResponseBody> {
    grpc_failure(code, message, None).map(ResponseBody::local)
}
