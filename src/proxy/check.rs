//! Active health checks, on the control thread: each check opens a new connection in
//! the endpoint's own protocol, as a request would.

use std::sync::Weak;

use fastrand::Rng;
use futures_util::future::join_all;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, StatusCode, Uri};
use tokio::time::{sleep, timeout};

use super::body::RequestBody;
use super::endpoint::{Connection, SendOptions, Sent, connect};
use super::endpoint_shared::EndpointShared;
use super::fault::Fault;
use super::settings::CheckSettings;
use super::shared::UpstreamShared;
use crate::telemetry::UpstreamTraffic;

/// The `User-Agent` of the gateway's own requests.
pub const OWN_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION")));

/// Checks all endpoints of an upstream at its interval, as long as the upstream exists.
pub async fn run(upstream: Weak<UpstreamShared>) {
    let mut rng = Rng::new();
    loop {
        let interval = {
            let Some(upstream) = upstream.upgrade() else {
                return;
            };
            let Some(settings) = &upstream.settings().check else {
                return;
            };
            let endpoints = upstream.endpoints();
            let checks = endpoints.iter().map(|endpoint| async {
                if let Some(result) = check(endpoint, settings).await {
                    upstream
                        .record_check(endpoint, result.as_ref().copied().map_err(String::as_str));
                    if result.is_err() {
                        upstream.doubt_addresses();
                    }
                }
            });
            join_all(checks).await;
            settings.interval
        };
        // Up to a tenth shorter, so that many gateways do not check at the same moment.
        sleep(interval.mul_f64(1.0 - 0.1 * rng.f64())).await;
    }
}

/// Asks the endpoint. None if the gateway could not ask it, which is no fault of the endpoint.
///
/// # Errors
/// Why it is not healthy.
async fn check(endpoint: &EndpointShared, settings: &CheckSettings) -> Option<Result<(), String>> {
    let limit = settings.timeout;
    Some(Err(match timeout(limit, status(endpoint, settings)).await {
        Ok(Ok(status)) if is_good(status) => return Some(Ok(())),
        Ok(Ok(status)) => format!("the status is {}", status.as_u16()),
        Ok(Err(fault)) if !fault.counts() => return None,
        Ok(Err(Fault::Untrusted)) => {
            endpoint.handshake_failure().map(|it| it.to_string()).unwrap_or_default()
        }
        Ok(Err(fault)) => fault.failure().to_string(),
        Err(_) => format!("there is no answer within {limit:?}"),
    }))
}

/// Whether an endpoint is healthy that responds to a check with this status.
pub fn is_good(status: StatusCode) -> bool {
    (200..400).contains(&status.as_u16())
}

/// The status of the response to one check.
///
/// # Errors
/// If there is no response.
pub async fn status(
    endpoint: &EndpointShared,
    settings: &CheckSettings,
) -> Result<StatusCode, Fault> {
    let opened = connect(endpoint, settings.timeout, &UpstreamTraffic::default(), None).await?;
    let mut connection = Connection::from(opened);
    let mut request = Request::new(RequestBody::EMPTY);
    *request.uri_mut() = Uri::from(settings.path.clone());
    request.headers_mut().insert(USER_AGENT, OWN_USER_AGENT);
    let sent = connection.send(Box::new(request), endpoint, SendOptions::default()).await;
    let Sent { response, .. } = sent.map_err(|_| Fault::Closed)?;
    Ok(response.status())
}
