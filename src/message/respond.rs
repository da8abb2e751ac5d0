//! The gateway's own responses: failures and refusals, as problem+json (RFC 9457), as
//! text, as a page for browsers, or as the status of a gRPC call.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderValue, Method, Response, StatusCode};
use memchr::{memchr2_iter, memmem};
use tollgate_core::policy::TokenFault;
use tollgate_core::request::Fields;

use super::failure::Failure;
use super::grpc::{self, Code};
use super::page;
use super::problem::Problem;
use super::spare::empty_table;
use super::template::{self, Refusal};

/// `Retry-After` for a busy upstream. Requests in flight end soon.
const BUSY_RETRY_SECS: HeaderValue = HeaderValue::from_static("1");

/// The methods that the gateway supports. A 405 must contain them (RFC 9110, section
/// 15.5.6). A backend may support others.
const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// The challenge of a 401 (RFC 6750, section 3). It names an error only if there was a
/// token.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"gateway\"");
const CHALLENGE_AGAIN: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"gateway\", error=\"invalid_token\"");

/// About how many fields a response of the gateway has, with those about limits.
const FIELDS: usize = 16;

/// Registered by draft-ietf-httpapi-ratelimit-headers-11, section 10.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The format of the gateway's own responses to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// `application/problem+json`.
    Problem,
    /// `text/plain`.
    Text,
    /// `text/html`, for a person in front of a browser.
    Page,
    /// `application/grpc`: the HTTP status is 200, and the gRPC status is a field.
    Grpc,
}

/// Whether a line of `Accept` names JSON, or all types among which it is.
fn accepts_json(types: &[u8]) -> bool {
    memchr2_iter(b'*', b'j', types).any(|at| {
        let (before, rest) = types.split_at(at);
        let is_range = rest[0] == b'*' && before.ends_with(b"application/");
        is_range || rest.starts_with(b"*/*") || rest.starts_with(b"json")
    })
}

/// Whether a line of `Accept` names JSON itself.
fn names_json(types: &[u8]) -> bool {
    memmem::find(types, b"json").is_some()
}

/// Whether a line of `Accept` is that of a browser that shows a page: Chromium, Firefox and Safari begin
/// it so. Programs that want HTML do not name XHTML.
fn is_of_browser(types: &[u8]) -> bool {
    types.starts_with(b"text/html,application/xhtml+xml")
}

impl ErrorFormat {
    /// The format for a request: gRPC for a gRPC call, else problem+json, unless the
    /// configuration selects text, a browser is to show the response as a page, or the client
    /// accepts other types but not JSON.
    pub(crate) fn choose(problem_json: bool, method: &Method, fields: Fields<'_>) -> Self {
        if grpc::is_call(method, fields) {
            return Self::Grpc;
        }
        Self::of_http(problem_json, fields)
    }

    /// The same for a request that is no gRPC call, or is not answered as one.
    pub(crate) fn of_http(problem_json: bool, fields: Fields<'_>) -> Self {
        let mut accepted = fields.get_all(&ACCEPT).map(HeaderValue::as_bytes).peekable();
        if !problem_json {
            return Self::Text;
        }
        let (mut takes_json, mut is_browser) = (accepted.peek().is_none(), false);
        for types in accepted {
            takes_json |= accepts_json(types);
            is_browser |= is_of_browser(types);
        }
        match (is_browser, takes_json) {
            (true, _) if !fields.get_all(&ACCEPT).any(|it| names_json(it.as_bytes())) => Self::Page,
            (_, true) => Self::Problem,
            (_, false) => Self::Text,
        }
    }

    /// The response to a request that failed.
    pub(crate) fn failure(self, failure: Failure, request_id: &HeaderValue) -> Response<Bytes> {
        let status = failure.status();
        let detail = failure.to_string();
        let problem = Problem {
            kind: None,
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &detail,
            source: Some(failure.blame().as_str()),
            violated_policies: &[],
            retry_after_ms: None,
            request_id: printable(request_id),
        };
        let mut response = self.response(&problem, Code::of(failure));
        if failure.ends_connection() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, METHODS);
        }
        if let Failure::Unauthorized(fault) = failure {
            let challenge = match fault {
                TokenFault::Missing => CHALLENGE,
                TokenFault::Invalid | TokenFault::TooLong => CHALLENGE_AGAIN,
            };
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if matches!(failure, Failure::UpstreamBusy | Failure::QueueFull | Failure::Exhausted) {
            response.headers_mut().insert(RETRY_AFTER, BUSY_RETRY_SECS);
        }
        response
    }

    /// The response to a request that exceeds a limit. The fields about limits are added
    /// later, as to every response.
    pub(crate) fn refusal(
        self,
        refusal: &Refusal<'_>,
        request_id: &HeaderValue,
    ) -> Response<Bytes> {
        if let Some(template) = refusal.template
            && self != Self::Grpc
        {
            return template::fill(template, refusal);
        }
        let detail = match refusal.wait {
            Some(wait) => Cow::Owned(try_again(wait.as_secs_ceil().max(1))),
            None => Cow::Borrowed("The request costs more than the limit can ever admit."),
        };
        let problem = Problem {
            kind: Some(QUOTA_EXCEEDED),
            title: "Quota Exceeded",
            status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
            detail: &detail,
            source: None,
            violated_policies: refusal.policies,
            retry_after_ms: refusal.wait.map(|wait| wait.as_millis_ceil().max(1)),
            request_id: printable(request_id),
        };
        self.response(&problem, Code::ResourceExhausted)
    }

    fn response(self, problem: &Problem<'_>, code: Code) -> Response<Bytes> {
        let (content_type, body) = match self {
            Self::Problem => {
                (HeaderValue::from_static("application/problem+json"), problem.to_json())
            }
            Self::Text => (
                HeaderValue::from_static("text/plain; charset=utf-8"),
                format!("{}: {}\n", problem.title, problem.detail).into(),
            ),
            Self::Page => {
                (HeaderValue::from_static("text/html; charset=utf-8"), page::page(problem).into())
            }
            Self::Grpc => {
                let message = format!("{}: {}", problem.title, problem.detail);
                return grpc::trailers_only(code, &message, problem.retry_after_ms);
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(problem.status).expect("it was made from a status");
        // The fields about limits follow, and the table need not grow for them.
        *response.headers_mut() = empty_table(FIELDS);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        if self == Self::Page {
            let policy = HeaderValue::from_static(page::CONTENT_SECURITY_POLICY);
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

/// The response to an OPTIONS request that may not be forwarded (`Max-Forwards: 0`).
pub(crate) fn options_response() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

/// The request id as text. An id from a client is ASCII; see `request_id`.
fn printable(request_id: &HeaderValue) -> &str {
    request_id.to_str().unwrap_or_default()
}

/// What a client does that exceeds a limit.
fn try_again(seconds: u64) -> String {
    let mut buffer = itoa::Buffer::new();
    let unit = if seconds == 1 { " second." } else { " seconds." };
    ["Try again in ", buffer.format(seconds), unit].concat()
}

#[cfg(test)]
mod tests {
    use tollgate_core::policy::Template;
    use tollgate_core::request::Ambiguity;
    use tollgate_core::time::Span;

    use super::*;

    const ID: HeaderValue = HeaderValue::from_static("id-1");

    fn refusal(wait: Option<Span>) -> Refusal<'static> {
        Refusal {
            policies: &["per-client", "daily"],
            limit: 100,
            remaining: 0,
            wait,
            template: None,
        }
    }

    fn text(response: &Response<Bytes>) -> &str {
        std::str::from_utf8(response.body()).expect("UTF-8")
    }

    #[test]
    fn a_refusal_names_the_policies_and_the_wait() {
        let wait = Some(Span::from_micros(1_500_001));
        let response = ErrorFormat::Problem.refusal(&refusal(wait), &ID);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(
            text(&response),
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Try again in 2 seconds.","violated-policies":["per-client","daily"],"retry-after-ms":1501,"request-id":"id-1"}"#
        );
    }

    #[test]
    fn a_request_that_can_never_be_admitted_is_not_told_to_wait() {
        let response = ErrorFormat::Text.refusal(&refusal(None), &ID);
        assert_eq!(
            text(&response),
            "Quota Exceeded: The request costs more than the limit can ever admit.\n"
        );
    }

    #[test]
    fn a_failure_names_the_part_that_failed() {
        let response = ErrorFormat::Problem.failure(Failure::UpstreamTimeout, &ID);
        assert_eq!(response.status(), 504);
        assert_eq!(
            text(&response),
            r#"{"title":"Gateway Timeout","status":504,"detail":"the upstream did not answer in time","source":"upstream","request-id":"id-1"}"#
        );
    }

    #[test]
    fn after_an_ambiguous_request_the_connection_ends() {
        let failure = Failure::Ambiguous(Ambiguity::ManyHosts);
        let response = ErrorFormat::Problem.failure(failure, &ID);
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()[CONNECTION], "close");
    }

    #[test]
    fn a_405_lists_the_supported_methods() {
        for failure in [Failure::Tunnel, Failure::Trace] {
            let response = ErrorFormat::Text.failure(failure, &ID);
            assert_eq!((response.status().as_u16(), &response.headers()[ALLOW]), (405, &METHODS));
        }
    }

    #[test]
    fn a_missing_token_is_challenged_and_an_invalid_token_is_reported_as_an_error() {
        let answer = |format: ErrorFormat, fault| format.failure(Failure::Unauthorized(fault), &ID);
        let missing = answer(ErrorFormat::Text, TokenFault::Missing);
        assert_eq!(
            (missing.status().as_u16(), &missing.headers()[WWW_AUTHENTICATE]),
            (401, &CHALLENGE)
        );
        let invalid = answer(ErrorFormat::Problem, TokenFault::Invalid);
        assert_eq!(invalid.headers()[WWW_AUTHENTICATE], CHALLENGE_AGAIN);
        assert_eq!(answer(ErrorFormat::Grpc, TokenFault::Invalid).headers()["grpc-status"], "16");
    }

    #[test]
    fn a_busy_upstream_has_a_short_retry_after() {
        let response = ErrorFormat::Problem.failure(Failure::UpstreamBusy, &ID);
        assert_eq!(
            (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
            (503, &BUSY_RETRY_SECS)
        );
    }

    #[test]
    fn the_format_follows_accept_and_the_configuration() {
        let choose = |problem_json, accept: &[&'static str]| {
            let fields = accept.iter().map(|accept| (ACCEPT, HeaderValue::from_static(accept)));
            ErrorFormat::choose(problem_json, &Method::POST, Fields::of(&fields.collect()))
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
        let choose = |method| ErrorFormat::choose(true, &method, Fields::of(&headers));
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
        let response = ErrorFormat::Grpc.refusal(&refusal, &ID);
        assert_eq!((response.status().as_u16(), text(&response)), (200, ""));
        let headers = response.headers();
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(headers["grpc-message"], "Quota Exceeded: Try again in 2 seconds.");
        assert_eq!(headers["grpc-retry-pushback-ms"], "1501");
    }

    #[test]
    fn a_grpc_call_that_fails_ends_the_connection_like_any_request() {
        let response = ErrorFormat::Grpc.failure(Failure::BodyTooLarge, &ID);
        assert_eq!(response.headers()["grpc-status"], "8");
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
        assert_eq!(response.headers()[CONNECTION], "close");
    }
}
