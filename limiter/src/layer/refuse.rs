//! The responses to requests that are not admitted.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tollgate_core::algorithm::Retry;
use tollgate_core::decision;
use tollgate_core::time::Span;

use super::grpc;
use crate::library::{Decision, Missing, Outcome};

/// Registered by draft-ietf-httpapi-ratelimit-headers-11, section 10.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The challenges of a 401 (RFC 6750, section 3). An error is named only if there was a token.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer");
const CHALLENGE_AGAIN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// Makes the response to a request that is not admitted. The layer adds the fields about limits.
///
/// A function of the same form is one, see [`RateLimitLayer::refuse`](crate::RateLimitLayer::refuse).
///
/// ```
/// use bytes::Bytes;
/// use http::request::Parts;
/// use http::{Response, StatusCode};
/// use tollgate_limiter::{Decision, Outcome, Refuse};
///
/// #[derive(Clone)]
/// struct Short;
///
/// impl Refuse for Short {
///     fn refuse(&self, _head: &Parts, decision: &Decision) -> Response<Bytes> {
///         let mut response = Response::new(Bytes::new());
///         *response.status_mut() = match decision.outcome() {
///             Outcome::Refuse { .. } => StatusCode::TOO_MANY_REQUESTS,
///             _ => StatusCode::SERVICE_UNAVAILABLE,
///         };
///         response
///     }
/// }
/// ```
pub trait Refuse: Clone {
    /// The response to the request with this head. For an example see [`Refuse`].
    fn refuse(&self, head: &Parts, decision: &Decision) -> Response<Bytes>;
}

impl<F> Refuse for F
where
    F: Fn(&Parts, &Decision) -> Response<Bytes> + Clone,
{
    fn refuse(&self, head: &Parts, decision: &Decision) -> Response<Bytes> {
        self(head, decision)
    }
}

/// Refuses requests as a gateway does: with `application/problem+json` (RFC 9457), with text for
/// clients that do not accept JSON, and trailers-only for calls of gRPC.
///
/// | outcome | status | gRPC |
/// |---|---|---|
/// | beyond a limit | 429 | 8 |
/// | not available | 503 | 14 |
/// | no key | 403 | 7 |
/// | no valid token | 401 | 16 |
/// | can be read in two ways | 400 | 13 |
/// | the address of the peer is not known | 500 | 13 |
///
/// ```
/// # use tollgate_limiter::{Key, Limiter, Policy, RateLimitLayer, Refusal};
/// # let limiter = Limiter::builder().policy(Policy::new("p", Key::Ip, "5/s".parse()?)).build()?;
/// let layer = RateLimitLayer::new(&limiter, [limiter.policy("p")?]).refuse(Refusal::default());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Refusal {}

/// What a response says.
struct Problem {
    kind: Option<&'static str>,
    title: &'static str,
    status: StatusCode,
    detail: String,
    /// The side that must change something, unless it is a limit.
    source: Option<&'static str>,
    wait: Option<Span>,
}

impl Refuse for Refusal {
    fn refuse(&self, head: &Parts, decision: &Decision) -> Response<Bytes> {
        let mut response = Problem::of(decision).response(head, decision);
        let headers = response.headers_mut();
        match decision.missing() {
            Some(Missing::Token) => drop(headers.insert(WWW_AUTHENTICATE, CHALLENGE)),
            Some(Missing::ValidToken) => drop(headers.insert(WWW_AUTHENTICATE, CHALLENGE_AGAIN)),
            _ => {}
        }
        response
    }
}

fn takes_json(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_none_or(|accept| {
        let has = |what: &[u8]| accept.as_bytes().windows(what.len()).any(|part| part == what);
        has(b"json") || has(b"*/*") || has(b"application/*")
    })
}

impl Problem {
    /// The response in the format for this request.
    fn response(&self, head: &Parts, decision: &Decision) -> Response<Bytes> {
        let wait_ms = self.wait.map(|wait| wait.as_millis_ceil().max(1));
        let Self { status, title, detail, .. } = self;
        if grpc::is_call(&head.method, &head.headers) {
            return grpc::trailers_only(*status, &format!("{title}: {detail}"), wait_ms);
        }
        let (content_type, body) = match takes_json(&head.headers) {
            true => ("application/problem+json", self.json(decision, wait_ms)),
            false => ("text/plain; charset=utf-8", format!("{title}: {detail}\n")),
        };
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = *status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }

    fn of(decision: &Decision) -> Self {
        let failed = |status: StatusCode, source, detail: &str| Self {
            kind: None,
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.to_owned(),
            source: Some(source),
            wait: None,
        };
        match (decision.outcome(), decision.missing()) {
            (Outcome::Refuse { .. }, _) => Self::beyond_a_limit(decision),
            (Outcome::KeyMissing, Some(Missing::Peer)) => failed(
                StatusCode::INTERNAL_SERVER_ERROR,
                "gateway",
                "the address of the client is not known",
            ),
            (Outcome::KeyMissing, Some(Missing::Ambiguous)) => {
                failed(StatusCode::BAD_REQUEST, "client", "the request can be read in two ways")
            }
            (Outcome::KeyMissing, Some(Missing::Token)) => failed(
                StatusCode::UNAUTHORIZED,
                "client",
                "this route asks for a bearer token, and the request has none",
            ),
            (Outcome::KeyMissing, Some(Missing::ValidToken)) => failed(
                StatusCode::UNAUTHORIZED,
                "client",
                "the bearer token of this request is not valid, or not valid any more",
            ),
            (Outcome::KeyMissing, _) => failed(
                StatusCode::FORBIDDEN,
                "client",
                "this route asks for a key that the request does not have",
            ),
            (Outcome::Unavailable | Outcome::Admit { .. }, _) => failed(
                StatusCode::SERVICE_UNAVAILABLE,
                "gateway",
                "this request cannot be judged at the moment",
            ),
        }
    }

    fn beyond_a_limit(decision: &Decision) -> Self {
        let wait = match decision.judged().outcome {
            decision::Outcome::Refuse(Retry::After(wait)) => Some(wait),
            _ => None,
        };
        let detail = match wait.map(|wait| wait.as_secs_ceil().max(1)) {
            Some(1) => "Try again in 1 second.".to_owned(),
            Some(secs) => format!("Try again in {secs} seconds."),
            None => "The request costs more than the limit can ever admit.".to_owned(),
        };
        let (status, title) = (StatusCode::TOO_MANY_REQUESTS, "Quota Exceeded");
        Self { kind: Some(QUOTA_EXCEEDED), title, status, detail, source: None, wait }
    }

    fn json(&self, decision: &Decision, wait_ms: Option<u64>) -> String {
        let mut json = String::from("{");
        if let Some(kind) = self.kind {
            push_text(&mut json, "type", kind);
        }
        push_text(&mut json, "title", self.title);
        push_number(&mut json, "status", self.status.as_u16().into());
        push_text(&mut json, "detail", &self.detail);
        if let Some(source) = self.source {
            push_text(&mut json, "source", source);
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            push_name(&mut json, "violated-policies");
            json.push('[');
            for (index, name) in violated(decision).into_iter().enumerate() {
                json.push_str(if index > 0 { "," } else { "" });
                push_quoted(&mut json, name);
            }
            json.push(']');
        }
        if let Some(wait_ms) = wait_ms {
            push_number(&mut json, "retry-after-ms", wait_ms);
        }
        json.push('}');
        json
    }
}

/// The names of all policies that refuse the request, the binding one first.
fn violated(decision: &Decision) -> Vec<&str> {
    let judged = decision.judged();
    let binding = judged.binding().map(|report| &*report.policy.name);
    let others = judged.violated().map(|policy| &*policy.name);
    binding.into_iter().chain(others.filter(|name| Some(*name) != binding)).collect()
}

fn push_name(json: &mut String, name: &str) {
    json.push_str(if json.len() > 1 { "," } else { "" });
    push_quoted(json, name);
    json.push(':');
}

fn push_text(json: &mut String, name: &str, value: &str) {
    push_name(json, name);
    push_quoted(json, value);
}

fn push_number(json: &mut String, name: &str, value: u64) {
    push_name(json, name);
    write!(json, "{value}").expect("writing to a string does not fail");
}

/// Names of policies and fixed texts have no control characters.
fn push_quoted(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            json.push('\\');
        }
        json.push(c);
    }
    json.push('"');
}
