//! Questions over HTTP.

mod api;
mod auth;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod ratelimit;

use std::rc::Rc;
use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use tollgate_core::request::Malformed;

use self::ratelimit::Path;
use super::settings::HttpSettings;
use crate::gateway::{Gateway, ResponseBody};
use crate::message::Failure;
use crate::server::{ClientBody, Peer};

pub use self::api::ApiState;
pub use self::api::Shared;
pub use self::ratelimit::RateLimitService;

/// Answers one request. `rate_limits` is the rate limit service, if there is one.
pub async fn answer(
    api: &Rc<ApiState>,
    gateway: &Rc<Gateway>,
    settings: &Arc<HttpSettings>,
    rate_limits: Option<RateLimitService<'_>>,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Response<ResponseBody> {
    if !settings.listener.callers.include(peer.address.ip(), peer.uid) {
        return plain(StatusCode::FORBIDDEN, "check.http.trust does not include your address\n");
    }
    let path = request.uri().path();
    // The client of a proxy that asks has caused what is wrong with a question.
    if let Some(&malformed) = request.extensions().get::<Malformed>()
        && !auth::is_served(path)
    {
        let mut response = plain(StatusCode::BAD_REQUEST, "the request is malformed\n");
        *response.status_mut() = Failure::from(malformed).status();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    if api::is_served(path) {
        return api::answer(api, gateway, settings, peer, request).await;
    }
    if let (Some(path), Some(service)) = (Path::of(path), rate_limits) {
        return service.answer(path, gateway, settings, request).await.map(ResponseBody::local);
    }
    match auth::answer(gateway, settings, peer, request).await {
        Ok(response) => response,
        Err(_) => plain(StatusCode::NOT_FOUND, "there is no such path\n"),
    }
}

/// The answer on a connection whose listener is about to close.
pub fn closed() -> Response<ResponseBody> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the configuration has no check.http any more\n")
}

fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::local(text.into()));
    *response.status_mut() = status;
    response
}
