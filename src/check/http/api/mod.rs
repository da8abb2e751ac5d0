//! The JSON API: decisions for services, and leases of what they charge.
//!
//! A service describes a client by its key, or a request. The same policies decide by the same
//! counters as for a request that the gateway forwards.

mod api_key;
mod asked;
mod caller;
mod decide;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod idempotency;
mod key;
mod prepare;
mod problem;
mod question;
mod reply;
mod settle;
mod state;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::task::spawn_local;
use tokio::time::timeout;

pub use self::caller::Caller;
pub use self::problem::{Problem, json};
pub use self::question::read;
pub use self::state::ApiState;
pub use self::state::Shared;

use self::decide::Check;
use self::idempotency::{Begun, Kept, Pending, Repeatable};
use self::prepare::Asking;
use self::reply::Answered;
use self::settle::{Ending, Verb};
use crate::check::settings::HttpSettings;
use crate::gateway::{Gateway, ResponseBody};
use crate::message::{self, BodyError, has_content_type};
use crate::server::{ClientBody, Peer};

/// The largest body.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The longest time for which a body may arrive.
const BODY: Duration = Duration::from_secs(10);

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Check,
    Leases(Verb),
}

impl Path {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/check" => Self::Check,
            "/v1/settle" => Self::Leases(Verb::Settle),
            "/v1/release" => Self::Leases(Verb::Release),
            "/v1/renew" => Self::Leases(Verb::Renew),
            _ => return None,
        })
    }
}

/// A call of a known path, whose body has been read.
struct Call {
    /// The number of its caller.
    caller: usize,
    path: Path,
    fields: HeaderMap,
    body: Bytes,
    /// Where the caller has reached this node.
    place: String,
}

/// Whether a path is one of this API.
pub fn is_served(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Answers one request.
pub async fn answer(
    state: &Rc<ApiState>,
    gateway: &Rc<Gateway>,
    settings: &Arc<HttpSettings>,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Response<ResponseBody> {
    let answered = answer_to(state, gateway, settings, peer, request).await;
    answered.unwrap_or_else(Problem::into_response).map(ResponseBody::local)
}

/// The life of a call: know its caller, read its body, look for an earlier answer, and answer it.
async fn answer_to(
    state: &Rc<ApiState>,
    gateway: &Rc<Gateway>,
    settings: &Arc<HttpSettings>,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Result<Response<Bytes>, Problem> {
    let (head, body) = request.into_parts();
    let path =
        Path::of(head.uri.path()).ok_or_else(|| Problem::not_found("there is no such path"))?;
    if head.method != Method::POST {
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "use POST"));
    }
    let caller = Caller::of(settings, &head.headers)?;
    check_json(&head.headers)?;
    let body = read_body(body, MAX_BODY_BYTES).await?;
    let place = peer.local.to_string();
    let call = Call { caller: caller.number, path, fields: head.headers, body, place };
    let key = single(&call.fields, &IDEMPOTENCY_KEY)?.map(<[u8]>::to_vec);
    let Some(key) = key else {
        return match path {
            // A client that disconnects does not need the decision. A lease of units in flight
            // that it does not get lasts until its time.
            Path::Check => Ok(perform(state, gateway, settings, call).await?.response),
            Path::Leases(_) => to_its_end(state, gateway, settings, call, None).await,
        };
    };
    let path = head.uri.path();
    let repeatable = Repeatable { caller: caller.digest(), path, key: &key, body: &call.body };
    if !repeatable.has_valid_key() {
        return Err(Problem::bad_request("Idempotency-Key has 1 to 255 characters"));
    }
    match state.shared.answers.begin(repeatable, gateway.engine().clock().now()) {
        Begun::Answered(kept) => Ok(kept.into_response()),
        Begun::InProgress => {
            Err(Problem::conflict("the call with this Idempotency-Key is in progress"))
        }
        Begun::Differs => Err(Problem::conflict("another body was sent with this Idempotency-Key")),
        Begun::New(pending) => to_its_end(state, gateway, settings, call, Some(pending)).await,
    }
}

/// Performs a call, and keeps its answer for `pending`, also if its client disconnects. An answer that
/// the same call may change is not kept.
async fn to_its_end(
    state: &Rc<ApiState>,
    gateway: &Rc<Gateway>,
    settings: &Arc<HttpSettings>,
    call: Call,
    pending: Option<Pending>,
) -> Result<Response<Bytes>, Problem> {
    let state = Rc::clone(state);
    let gateway = Rc::clone(gateway);
    let settings = Arc::clone(settings);
    let task = spawn_local(async move {
        let Answered { response, is_final } = perform(&state, &gateway, &settings, call).await?;
        if let Some(pending) = pending.filter(|_| is_final) {
            pending.answered(Kept::of(&response));
        }
        Ok(response)
    });
    task.await.unwrap_or_else(|_| Err(Problem::unavailable("the call failed; see the log")))
}

async fn perform(
    state: &ApiState,
    gateway: &Gateway,
    settings: &HttpSettings,
    call: Call,
) -> Result<Answered, Problem> {
    let Call { caller, path, fields, body, place } = call;
    let caller = Caller::numbered(settings, caller);
    let wall = gateway.engine().clock().wall();
    let asking = Asking { gateway, caller: &caller, leases: &settings.leases, wall };
    match path {
        Path::Check => {
            let prefers_status = prefers(&fields, "status");
            let check = Check { asking, state, place: &place, prefers_status };
            check.answer(read(&body)?).await
        }
        Path::Leases(verb) => {
            let ending = Ending { asking, state, verb };
            ending.answer(read(&body)?).await
        }
    }
}

/// A body has the type that no HTML form can send.
fn check_json(fields: &HeaderMap) -> Result<(), Problem> {
    if has_content_type(fields, &["application/json"]) {
        return Ok(());
    }
    let detail = "send the body with Content-Type: application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The whole of a body of at most so many bytes.
///
/// # Errors
/// If it is too large, or does not arrive completely or in time.
pub async fn read_body(body: ClientBody, most: usize) -> Result<Bytes, Problem> {
    match timeout(BODY, message::read_body(body, most)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(BodyError::TooLarge)) => {
            let detail = format!("a body has at most {} KiB", most / 1024);
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail))
        }
        Ok(Err(BodyError::Incomplete)) => Err(Problem::bad_request("the body is not complete")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body takes too long")),
    }
}

/// The value of a field that occurs at most once.
fn single<'f>(fields: &'f HeaderMap, name: &HeaderName) -> Result<Option<&'f [u8]>, Problem> {
    let mut values = fields.get_all(name).iter();
    let first = values.next().map(|value| value.as_bytes());
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Problem::bad_request(format!("{name} occurs twice"))),
    }
}

/// Whether the client prefers this (RFC 7240).
fn prefers(fields: &HeaderMap, preference: &str) -> bool {
    let values = fields.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let all = values.flat_map(|value| value.split(','));
    all.map(str::trim).any(|one| one.eq_ignore_ascii_case(preference))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().expect("it is a value"))
        };
        fields.iter().map(parse).collect()
    }

    #[test]
    fn preferences_are_a_list() {
        let prefers = |value| prefers(&fields(&[("prefer", value)]), "status");
        assert!(prefers("status") && prefers("wait=1, Status"));
        assert!(!prefers("statuses") && !prefers("status=1x"));
    }

    #[test]
    fn other_paths_are_not_served() {
        assert!(Path::of("/v1/check").is_some() && Path::of("/v1/check/").is_none());
        assert!(is_served("/v1/other") && !is_served("/v10") && !is_served("/auth"));
    }
}
