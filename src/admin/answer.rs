//! Answers to calls.

use std::convert::Infallible;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{Either, Full, StreamBody};
use serde_json::{Value, json};

use super::audit::Change;
use super::call::Call;
use super::page::PageFile;
use super::problem::Problem;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// The text format of Prometheus.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate admin\"");
/// Fields of every response: nothing is stored, and a browser does not guess its type, or let
/// other sites or frames use it.
const ALWAYS: [(HeaderName, HeaderValue); 6] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// The policy of the page: it runs its own script, and calls its own origin. No markup is made
/// from text (trusted types).
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The body of a response that is a stream of events.
pub(super) type EventBody =
    StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>>>>>;

/// The body of a response.
pub(super) type AdminBody = Either<Full<Bytes>, EventBody>;

/// The items of one page at most, and if nothing is said.
const MAX_ITEMS: usize = 1000;
const ITEMS: usize = 100;

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    content_type: HeaderValue,
    body: Bytes,
    /// What was changed, for the audit log.
    pub(super) change: Option<Change>,
    is_page: bool,
    /// The contents of the entity tag.
    pub(super) etag: Option<String>,
}

impl Answer {
    /// A JSON document.
    pub(super) fn json(body: &Value) -> Self {
        Self::document(StatusCode::OK, JSON, body)
    }

    /// A JSON document about a change.
    pub(super) fn changed(body: &Value, change: Change) -> Self {
        Self { change: Some(change), ..Self::json(body) }
    }

    /// Whether the gateway is well.
    pub(super) fn health(is_well: bool, state: &str) -> Self {
        let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        Self::document(status, JSON, &json!({ "status": state }))
    }

    /// The metrics.
    pub(super) fn metrics(text: String) -> Self {
        let (status, body) = (StatusCode::OK, text.into());
        Self { status, content_type: METRICS, body, change: None, is_page: false, etag: None }
    }

    /// A file of the page.
    pub(super) fn page_file(file: PageFile) -> Self {
        let content_type = HeaderValue::from_static(file.content_type);
        let body = Bytes::from_static(file.text.as_bytes());
        Self { status: StatusCode::OK, content_type, body, change: None, is_page: true, etag: None }
    }

    /// A stream of events.
    pub(super) fn events(body: EventBody) -> Response<AdminBody> {
        let mut response = Response::new(Either::Right(body));
        response.headers_mut().extend(ALWAYS);
        response.headers_mut().insert(CONTENT_TYPE, EVENTS);
        response
    }

    fn document(status: StatusCode, content_type: HeaderValue, body: &Value) -> Self {
        let body = format!("{body:#}\n").into();
        Self { status, content_type, body, change: None, is_page: false, etag: None }
    }

    /// A page of a list. Each item has a name, by which the next page is found.
    pub(super) fn page(items: Vec<(String, Value)>, call: &Call) -> Result<Self, Problem> {
        Self::page_about(items, call, json!({}))
    }

    /// The same, with further fields of the answer.
    pub(super) fn page_about(
        items: Vec<(String, Value)>,
        call: &Call,
        mut about: Value,
    ) -> Result<Self, Problem> {
        let limit = match call.parameter("limit") {
            None => ITEMS,
            Some(text) => match text.parse() {
                Ok(limit @ 1..=MAX_ITEMS) => limit,
                _ => return Err(Problem::bad_request("limit is a number from 1 to 1000")),
            },
        };
        let mut rest = items.into_iter();
        if let Some(after) = call.parameter("after")
            && !rest.by_ref().any(|(name, _)| name == after)
        {
            return Err(Problem::bad_request("after is not the next of an earlier page"));
        }
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let last = page.last().map(|(name, _)| name.clone());
        let next = rest.next().and(last);
        let items: Vec<Value> = page.into_iter().map(|(_, item)| item).collect();
        (about["items"], about["next"]) = (json!(items), json!(next));
        Ok(Self::json(&about))
    }

    /// The status, for the audit log.
    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    /// The response.
    pub(super) fn into_response(self) -> Response<AdminBody> {
        let mut response = Response::new(Either::Left(Full::new(self.body)));
        *response.status_mut() = self.status;
        response.headers_mut().extend(ALWAYS);
        response.headers_mut().insert(CONTENT_TYPE, self.content_type);
        if self.is_page {
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, PAGE_POLICY);
        }
        let tag = self.etag.and_then(|tag| HeaderValue::try_from(format!("\"{tag}\"")).ok());
        response.headers_mut().extend(tag.map(|tag| (ETAG, tag)));
        response
    }
}

impl Problem {
    /// The response.
    pub(super) fn into_response(self) -> Response<AdminBody> {
        let answer = Answer::document(self.status, PROBLEM_JSON, &self.body());
        let mut response = answer.into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, BEARER);
        }
        if let Some(allow) = self.allow.and_then(|it| HeaderValue::try_from(it).ok()) {
            headers.insert(ALLOW, allow);
        }
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs_ceil().max(1)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let mut target = "limit=2".to_owned();
        let mut seen = Vec::new();
        loop {
            let call = Call::parse(&Method::GET, "/v1/policies", Some(&target)).unwrap();
            let items = (0..5).map(|it| (format!("p {it}"), Value::from(it))).collect();
            let page = Answer::page(items, &call).unwrap();
            let page: Value = serde_json::from_slice(&page.body).unwrap();
            seen.extend(page["items"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_str() else { break };
            target = format!("limit=2&after={}", next.replace(' ', "%20"));
        }
        assert_eq!(seen, (0..5).map(Value::from).collect::<Vec<_>>());
        for target in ["limit=0", "limit=1001", "limit=x", "after=q"] {
            let call = Call::parse(&Method::GET, "/v1/policies", Some(target)).unwrap();
            assert!(Answer::page(vec![("p".to_owned(), Value::Null)], &call).is_err(), "{target}");
        }
    }
}
