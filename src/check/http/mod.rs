//! Questions over HTTP.

use http::{Request, Response, StatusCode};

use super::settings::HttpSettings;
use crate::gateway::{Gateway, ResponseBody};
use crate::server::{ClientBody, Peer};

/// Answers one request.
pub(super) async fn answer(
    _gateway: &Gateway,
    settings: &HttpSettings,
    peer: &Peer,
    _request: Request<ClientBody>,
) -> Response<ResponseBody> {
    if !settings.trust.includes(peer.address.ip()) {
        return plain(StatusCode::FORBIDDEN, "check.http.trust does not include your address\n");
    }
    plain(StatusCode::NOT_FOUND, "there is no such path\n")
}

/// The answer on a connection whose listener is about to close.
pub(super) fn closed() -> Response<ResponseBody> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the configuration has no check.http any more\n")
}

fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::local(text.into()));
    *response.status_mut() = status;
    response
}
