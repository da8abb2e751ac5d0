//! Asking endpoints whether they are well, on the control thread: over a new
//! connection each time, in the endpoint's own protocol, as a request would go.

use std::sync::Weak;

use fastrand::Rng;
use futures_util::future::join_all;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Uri};
use tokio::time::{sleep, timeout};

use super::endpoint::{Connection, dial};
use super::fault::Fault;
use super::member::Member;
use super::settings::CheckSettings;
use super::{RequestBody, UpstreamShared};

/// The `User-Agent` of the gateway's own requests.
pub(super) const WHO: HeaderValue =
    HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION")));

/// Asks all endpoints of an upstream again and again, while there is one.
pub(super) async fn repeatedly(upstream: Weak<UpstreamShared>) {
    let mut rng = Rng::new();
    loop {
        let interval = {
            let Some(upstream) = upstream.upgrade() else {
                return;
            };
            let Some(settings) = &upstream.settings().check else {
                return;
            };
            let members = upstream.members();
            let checks = members.iter().map(|member| async {
                if let Some(is_well) = is_well(member, settings).await {
                    upstream.checked(member, is_well);
                }
            });
            join_all(checks).await;
            settings.interval
        };
        // Up to a tenth earlier: many gateways must not ask in step.
        sleep(interval.mul_f64(1.0 - 0.1 * rng.f64())).await;
    }
}

/// Whether the endpoint answers as it should, in time. None: there was no way to
/// ask, which is not its fault.
async fn is_well(member: &Member, settings: &CheckSettings) -> Option<bool> {
    let ask = async {
        let mut connection = Connection::from(dial(member, settings.timeout).await?);
        let mut request = Request::new(RequestBody::EMPTY);
        *request.uri_mut() = Uri::from(settings.path.clone());
        request.headers_mut().insert(USER_AGENT, WHO);
        connection.prepare(&mut request, member);
        let response = connection.send(request).await.map_err(|_| Fault::Closed)?;
        Ok::<_, Fault>((200..400).contains(&response.status().as_u16()))
    };
    match timeout(settings.timeout, ask).await {
        Ok(Err(fault)) if !fault.counts() => None,
        asked => Some(matches!(asked, Ok(Ok(true)))),
    }
}
