//! One question to an authorizer, and its answer.

use std::cell::Cell;

use http::header::{CONTENT_TYPE, HeaderName, TE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};

use crate::grpc::{PREFIX_BYTES, frame, one_message};
use crate::message::{
    Answered, AuthorizerQuestion as Question, AuthorizerSettings, BodyError, CheckFault, Checked,
    MAX_RESPONSE_HEAD_BYTES, Reuse, X_REQUEST_ID, check_request, checked, read_body,
    read_with_trailers,
};
use crate::proxy::{ForwardOptions, Proxy, RequestBody, ResponseBody, RouteTimeouts};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
/// The fields of a question that belong to its call, too.
const OF_CALLS: [HeaderName; 3] =
    [X_REQUEST_ID, HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// Why there is no answer, in one word for logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer(pub &'static str);

/// An answer.
pub struct Answer {
    pub answered: Answered,
    /// For which questions it is used.
    pub reuse: Reuse,
    /// Whether it demands changes that are not made.
    pub has_more: bool,
}

impl From<BodyError> for NoAnswer {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self("too_large"),
            BodyError::Incomplete => Self("upstream_broke_off"),
        }
    }
}

/// The answer to a question, which `proxy` sends. The caller limits the time.
///
/// # Errors
/// If there is no answer.
pub async fn ask(
    settings: &AuthorizerSettings,
    proxy: &Proxy,
    question: Question,
) -> Result<Answer, NoAnswer> {
    let request = match settings.is_grpc {
        true => call(settings, &question),
        false => get(question),
    };
    let response = send(settings, proxy, request).await?;
    match settings.is_grpc {
        true => read_call(settings, response).await,
        false => read_http(settings, response).await,
    }
}

/// The request that asks over HTTP.
fn get(question: Question) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::EMPTY);
    *request.headers_mut() = question.fields;
    request
}

/// The request that asks over gRPC.
fn call(settings: &AuthorizerSettings, question: &Question) -> Request<RequestBody> {
    let message = frame(&check_request(question));
    let mut request = Request::new(RequestBody::whole(message));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(TE, TRAILERS);
    let time = format!("{}m", settings.timeout.as_millis());
    if let Ok(time) = HeaderValue::try_from(time) {
        headers.insert(GRPC_TIMEOUT, time);
    }
    for name in OF_CALLS {
        if let Some(value) = question.fields.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    request
}

async fn send(
    settings: &AuthorizerSettings,
    proxy: &Proxy,
    mut request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, NoAnswer> {
    *request.uri_mut() = Uri::from(settings.target.clone());
    let limit = settings.timeout;
    let timeouts = RouteTimeouts { response: limit, idle: limit, request: None };
    let waited = Cell::default();
    let options = ForwardOptions::own(&timeouts, &waited);
    let response = proxy.forward(settings.upstream, Box::new(request), None, &options).await;
    response.map_err(|failure| NoAnswer(failure.reason()))
}

async fn read_http(
    settings: &AuthorizerSettings,
    response: Response<ResponseBody>,
) -> Result<Answer, NoAnswer> {
    let (head, body) = response.into_parts();
    if head.status.is_server_error() || head.status.is_informational() {
        return Err(NoAnswer("status"));
    }
    let body = read_body(body, settings.max_response_bytes).await?;
    let limit = settings.cache.as_ref().map(|cache| cache.time);
    let reuse = Reuse::of(head.status, &head.headers, limit);
    let answered = Answered::of(settings, head.status, &head.headers, body);
    let answered = answered.ok_or(NoAnswer("status"))?;
    Ok(Answer { answered, reuse, has_more: false })
}

/// A call that has not succeeded is no answer, whatever its message says.
async fn read_call(
    settings: &AuthorizerSettings,
    response: Response<ResponseBody>,
) -> Result<Answer, NoAnswer> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(NoAnswer("status"));
    }
    // The body of a refusal has a bound of its own, and this is for the fields.
    let most_bytes = settings.max_response_bytes + MAX_RESPONSE_HEAD_BYTES;
    let (body, trailers) = read_with_trailers(body, PREFIX_BYTES + most_bytes).await?;
    let status = trailers.as_ref().unwrap_or(&head.headers);
    if !has_succeeded(status) {
        return Err(NoAnswer("grpc_status"));
    }
    let message = one_message(body, most_bytes).map_err(|_| NoAnswer("message"))?;
    let Checked { answered, reuse, has_more } =
        checked(settings, message).map_err(|fault| match fault {
            CheckFault::Malformed => NoAnswer("message"),
            CheckFault::TooLarge => NoAnswer("too_large"),
        })?;
    Ok(Answer { answered, reuse, has_more })
}

/// Whether the fields behind the messages of a call say so.
fn has_succeeded(fields: &HeaderMap) -> bool {
    let mut statuses = fields.get_all(GRPC_STATUS).iter();
    statuses.next().is_some_and(|status| status == "0") && statuses.next().is_none()
}
