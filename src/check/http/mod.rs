//! Questions over HTTP.

mod api;

use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response, StatusCode};

use super::settings::HttpSettings;
use crate::gateway::{Gateway, ResponseBody};
use crate::server::{ClientBody, Peer};

pub(super) use self::api::ApiState;
pub(crate) use self::api::Shared;

/// Answers one request.
pub(super) async fn answer(
    api: &Rc<ApiState>,
    gateway: &Rc<Gateway>,
    settings: &Arc<HttpSettings>,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Response<ResponseBody> {
    if !settings.trust.includes(peer.address.ip()) {
        return plain(StatusCode::FORBIDDEN, "check.http.trust does not include your address\n");
    }
    if api::is_served(request.uri().path()) {
        return api::answer(api, gateway, settings, peer, request).await;
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
