//! The gateway's own responses: failures and refusals, as problem+json (RFC 9457), as
//! text, as a page for browsers, or as the status of a gRPC call.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use tollgate_core::meter::RpcMessage;
use tollgate_core::policy::{AuthFault, AuthRefusal, DenialAnswer};
use tollgate_core::refusal::grpc::Code;
use tollgate_core::refusal::{ErrorFormat, Problem, challenge};
use tollgate_core::request::ContentFault;

use super::failure::Failure;
use super::spare::empty_table;
use super::template::{self, Refusal};

/// `Retry-After` for a busy upstream. Requests in flight end soon.
const BUSY_RETRY_SECS: HeaderValue = HeaderValue::from_static("1");

/// The methods that the gateway supports. A 405 must contain them (RFC 9110, section
/// 15.5.6). A backend may support others.
const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// The codings of requests that the gateway can read.
const READ_CODINGS: HeaderValue = HeaderValue::from_static("gzip, zstd");

/// The realm of the challenges of a 401.
const REALM: &str = "gateway";

/// About how many fields a response of the gateway has, with those about limits.
const FIELDS: usize = 16;

/// The response to a request that failed. `message` is the message of JSON-RPC in it, if it was read.
pub fn failure_response(
    format: ErrorFormat,
    failure: Failure,
    message: Option<&RpcMessage>,
    request_id: &HeaderValue,
) -> Response<Bytes> {
    let status = failure.status();
    let detail = failure.to_string();
    let id = printable(request_id);
    let wait_s = wait_of(failure);
    let problem = Problem::of_status(status, failure.blame().as_str(), detail, Some(id));
    let retry_after_ms = wait_s.map(|secs| secs.saturating_mul(1000));
    let problem = Problem { retry_after_ms, message, rpc_code: rpc_code_of(failure), ..problem };
    let mut response = format.response(&problem, failure.code(), || empty_table(FIELDS));
    let headers = response.headers_mut();
    if failure.ends_connection() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, METHODS);
    }
    if failure == Failure::BodyCoding {
        // RFC 9110, section 12.5.3.
        headers.insert(ACCEPT_ENCODING, READ_CODINGS);
    }
    if let Failure::Unauthorized(fault) = failure {
        headers.insert(WWW_AUTHENTICATE, challenge(Some(REALM), fault));
    }
    if matches!(
        failure,
        Failure::UpstreamBusy
            | Failure::UpstreamQueueFull
            | Failure::UpstreamQueueTimeout
            | Failure::QueueFull
            | Failure::Exhausted
            | Failure::AuthorizerAway
            | Failure::KeysAway
            | Failure::BodyMemory
    ) {
        headers.insert(RETRY_AFTER, BUSY_RETRY_SECS);
    }
    if let Some(secs) = wait_s {
        headers.insert(RETRY_AFTER, secs.into());
    }
    response
}

/// How many seconds the client has to wait, if that is known.
fn wait_of(failure: Failure) -> Option<u64> {
    match failure {
        Failure::Denied(DenialAnswer::Unavailable(wait_s)) => wait_s.map(|it| it.get().into()),
        Failure::Unauthenticated(AuthRefusal {
            fault: AuthFault::TooManyFailures(wait), ..
        }) => Some(wait.as_secs_ceil()),
        _ => None,
    }
}

/// The code of an error of JSON-RPC, if it is not the status (JSON-RPC 2.0, section 5.1).
const fn rpc_code_of(failure: Failure) -> Option<i32> {
    match failure {
        Failure::BodyAmbiguous(ContentFault::Invalid) => Some(-32700),
        // SEP-2243 of the Model Context Protocol.
        Failure::BodyAmbiguous(ContentFault::McpField) => Some(-32020),
        Failure::BodyAmbiguous(_) => Some(-32600),
        _ => None,
    }
}

/// The response to a request that exceeds a limit. The fields about limits are added
/// later, as to every response.
pub fn refusal_response(
    format: ErrorFormat,
    refusal: &Refusal<'_>,
    request_id: &HeaderValue,
) -> Response<Bytes> {
    if let Some(template) = refusal.template
        && format != ErrorFormat::Grpc
    {
        return template::fill(template, refusal);
    }
    let id = printable(request_id);
    let problem = Problem::beyond_a_limit(refusal.policies, refusal.wait, Some(id));
    let limit = Some(refusal.limit);
    let problem = Problem { unit: refusal.unit, limit, message: refusal.message, ..problem };
    // The fields about limits follow, and the table need not grow for them.
    format.response(&problem, Code::ResourceExhausted, || empty_table(FIELDS))
}

/// The response to an OPTIONS request that may not be forwarded (`Max-Forwards: 0`).
pub fn options_response() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

/// The request id as text. An id from a client is ASCII; see `request_id`.
fn printable(request_id: &HeaderValue) -> &str {
    request_id.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use http::Method;
    use http::header::{ACCEPT, CONTENT_TYPE};
    use tollgate_core::policy::{Challenges, Template, TokenFault, Unit};
    use tollgate_core::refusal::{ApiForm, Offer};
    use tollgate_core::request::{Ambiguity, Fields};
    use tollgate_core::time::Span;

    use super::*;

    const ID: HeaderValue = HeaderValue::from_static("id-1");

    fn refusal(wait: Option<Span>) -> Refusal<'static> {
        Refusal {
            policies: &["per-client", "daily"],
            limit: 100,
            remaining: 0,
            unit: Unit::Requests,
            wait,
            message: None,
            template: None,
        }
    }

    fn text(response: &Response<Bytes>) -> &str {
        std::str::from_utf8(response.body()).expect("UTF-8")
    }

    #[test]
    fn a_refusal_names_the_policies_and_the_wait() {
        let wait = Some(Span::from_micros(1_500_001));
        let response = refusal_response(ErrorFormat::Problem, &refusal(wait), &ID);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(
            text(&response),
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Try again in 2 seconds.","violated-policies":["per-client","daily"],"retry-after-ms":1501,"request-id":"id-1"}"#
        );
    }

    #[test]
    fn a_request_that_can_never_be_admitted_is_not_told_to_wait() {
        let response = refusal_response(ErrorFormat::Text, &refusal(None), &ID);
        assert_eq!(
            text(&response),
            "Quota Exceeded: The request costs more than the limit can ever admit.\n"
        );
    }

    #[test]
    fn a_failure_names_the_part_that_failed() {
        let response = failure_response(ErrorFormat::Problem, Failure::UpstreamTimeout, None, &ID);
        assert_eq!(response.status(), 504);
        assert_eq!(
            text(&response),
            r#"{"title":"Gateway Timeout","status":504,"detail":"the upstream did not answer in time","source":"upstream","request-id":"id-1"}"#
        );
    }

    #[test]
    fn after_an_ambiguous_request_the_connection_ends() {
        let failure = Failure::Ambiguous(Ambiguity::ManyHosts);
        let response = failure_response(ErrorFormat::Problem, failure, None, &ID);
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()[CONNECTION], "close");
    }

    #[test]
    fn a_405_lists_the_supported_methods() {
        for failure in [Failure::Tunnel, Failure::Trace] {
            let response = failure_response(ErrorFormat::Text, failure, None, &ID);
            assert_eq!((response.status().as_u16(), &response.headers()[ALLOW]), (405, &METHODS));
        }
    }

    #[test]
    fn a_missing_token_is_challenged_and_an_invalid_token_is_reported_as_an_error() {
        let answer = |format: ErrorFormat, fault| {
            failure_response(format, Failure::Unauthorized(fault), None, &ID)
        };
        let missing = answer(ErrorFormat::Text, TokenFault::Missing);
        assert_eq!(
            (missing.status().as_u16(), missing.headers()[WWW_AUTHENTICATE].to_str().unwrap()),
            (401, "Bearer realm=\"gateway\"")
        );
        let invalid = answer(ErrorFormat::Problem, TokenFault::Invalid);
        assert_eq!(
            invalid.headers()[WWW_AUTHENTICATE],
            "Bearer realm=\"gateway\", error=\"invalid_token\""
        );
        assert_eq!(answer(ErrorFormat::Grpc, TokenFault::Invalid).headers()["grpc-status"], "16");
    }

    #[test]
    fn a_busy_upstream_has_a_short_retry_after() {
        let response = failure_response(ErrorFormat::Problem, Failure::UpstreamBusy, None, &ID);
        assert_eq!(
            (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
            (503, &BUSY_RETRY_SECS)
        );
    }

    #[test]
    fn the_format_follows_accept_and_the_configuration() {
        let choose = |problem_json: bool, accept: &[&'static str]| {
            let offer = if problem_json { Offer::ProblemAndPage } else { Offer::Text };
            let fields = accept.iter().map(|accept| (ACCEPT, HeaderValue::from_static(accept)));
            ErrorFormat::choose(offer, &Method::POST, Fields::of(&fields.collect()))
        };
        for accept in [
            &[][..],
            &["*/*"],
            &["application/json"],
            &["application/*;q=0.5"],
            &["application/problem+json"],
            &["text/html", "application/json"],
            &["text/html,application/xhtml+xml", "application/json"],
        ] {
            assert_eq!(choose(true, accept), ErrorFormat::Problem, "{accept:?}");
            assert_eq!(choose(false, accept), ErrorFormat::Text, "{accept:?}");
        }
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert_eq!(choose(true, &[browser]), ErrorFormat::Page);
        assert_eq!(choose(false, &[browser]), ErrorFormat::Text);
        for accept in ["text/html", "text/*", "application/javascript", ""] {
            assert_eq!(choose(true, &[accept]), ErrorFormat::Text, "{accept}");
        }
    }

    #[test]
    fn a_grpc_call_gets_a_grpc_response_whatever_it_accepts() {
        let headers = [(ACCEPT, "application/json"), (CONTENT_TYPE, "application/grpc+proto")]
            .map(|(name, value)| (name, HeaderValue::from_static(value)));
        let headers = headers.into_iter().collect();
        let choose =
            |method| ErrorFormat::choose(Offer::ProblemAndPage, &method, Fields::of(&headers));
        assert_eq!(choose(Method::POST), ErrorFormat::Grpc);
        assert_eq!(choose(Method::GET), ErrorFormat::Problem);
    }

    #[test]
    fn a_refused_grpc_call_is_told_how_long_to_wait_and_gets_no_template() {
        let template = Template {
            status: StatusCode::SERVICE_UNAVAILABLE,
            content_type: HeaderValue::from_static("text/html"),
            body: "<h1>no</h1>".into(),
        };
        let wait = Some(Span::from_micros(1_500_001));
        let refusal = Refusal { template: Some(&template), ..refusal(wait) };
        let response = refusal_response(ErrorFormat::Grpc, &refusal, &ID);
        assert_eq!((response.status().as_u16(), text(&response)), (200, ""));
        let headers = response.headers();
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(headers["grpc-message"], "Quota Exceeded: Try again in 2 seconds.");
        assert_eq!(headers["grpc-retry-pushback-ms"], "1501");
    }

    #[test]
    fn a_grpc_call_that_fails_ends_the_connection_like_any_request() {
        let response = failure_response(ErrorFormat::Grpc, Failure::BodyTooLarge, None, &ID);
        assert_eq!(response.headers()["grpc-status"], "8");
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
        assert_eq!(response.headers()[CONNECTION], "close");
    }

    #[test]
    fn a_route_that_is_out_of_service_tells_when_to_come_back() {
        let failure = Failure::Denied(DenialAnswer::Unavailable(NonZeroU32::new(600)));
        let response = failure_response(ErrorFormat::Problem, failure, None, &ID);
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "600");
        assert!(text(&response).contains(r#""retry-after-ms":600000"#), "{}", text(&response));
        let response = failure_response(ErrorFormat::Grpc, failure, None, &ID);
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], "600000");
    }

    /// Regression: calls of gRPC were told never to try again, and libraries of language models waited.
    #[test]
    fn a_client_with_too_many_wrong_credentials_is_told_its_wait_in_every_form() {
        let fault = AuthFault::TooManyFailures(Span::from_millis(445_500));
        let refusal = AuthRefusal { fault, challenges: Challenges::default() };
        let failure = Failure::Unauthenticated(refusal);
        let of = |format| failure_response(format, failure, None, &ID);
        let response = of(ErrorFormat::Problem);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "446");
        assert!(text(&response).contains(r#""retry-after-ms":446000"#), "{}", text(&response));
        assert_eq!(of(ErrorFormat::Grpc).headers()["grpc-retry-pushback-ms"], "446000");
        let api = of(ErrorFormat::Api(ApiForm::OpenAi));
        assert_eq!(api.headers()["x-should-retry"], "false");
        assert!(text(&api).contains("insufficient_quota"), "{}", text(&api));
    }

    #[test]
    fn keys_that_are_away_are_asked_for_again_soon() {
        let response = failure_response(ErrorFormat::Text, Failure::KeysAway, None, &ID);
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }
}
