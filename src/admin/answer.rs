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
use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::store::OutageCause;

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
pub type EventBody = StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>>>>>;

/// The body of a response.
pub type AdminBody = Either<Full<Bytes>, EventBody>;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct Page<T> {
    items: Vec<T>,
    /// What `after` is for the next page. Null: this is the last one.
    next: Option<String>,
}

impl<T> Page<T> {
    /// The page that a call asks for. Each item has a name, by which the next page is found.
    ///
    /// # Errors
    /// 400, if there is no item with the name in `after`.
    pub fn of(items: Vec<(String, T)>, call: &Call) -> Result<Self, Problem> {
        let mut rest = items.into_iter();
        if let Some(after) = call.parameter("after")
            && !rest.by_ref().any(|(name, _)| name == after)
        {
            return Err(Problem::bad_request("after is not the next of an earlier page"));
        }
        let page: Vec<_> = rest.by_ref().take(call.number("limit")).collect();
        let last = page.last().map(|(name, _)| name.clone());
        let next = rest.next().and(last);
        let items = page.into_iter().map(|(_, item)| item).collect();
        Ok(Self { items, next })
    }
}

/// Whether the gateway is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Health {
    pub status: HealthWord,
    /// What the gateway serves without, though it is ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without: Vec<Without>,
}

/// What the gateway serves without. A client without a credential learns the cause, and no
/// address, user or key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Without {
    /// The code of the reason in `/v1/status`.
    code: &'static str,
    /// The word of the cause, as in the metric `tollgate_store_away`.
    cause: &'static str,
    text: &'static str,
}

/// `alive` and `ready` have the status 200, `draining` has 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthWord {
    Alive,
    Ready,
    Draining,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    content_type: HeaderValue,
    body: Bytes,
    /// What was changed, for the audit log.
    pub change: Option<Change>,
    is_page: bool,
    /// The contents of the entity tag.
    pub etag: Option<String>,
}

impl Answer {
    /// A JSON document.
    pub fn json<T: Serialize + JsonSchema>(body: &T) -> Self {
        Self::document(StatusCode::OK, JSON, body)
    }

    /// A JSON document about a change.
    pub fn changed<T: Serialize + JsonSchema>(body: &T, change: Change) -> Self {
        Self { change: Some(change), ..Self::json(body) }
    }

    /// A JSON document about something that was made.
    pub fn created<T: Serialize + JsonSchema>(body: &T, change: Change) -> Self {
        Self { status: StatusCode::CREATED, ..Self::changed(body, change) }
    }

    /// Whether the gateway is well.
    pub fn health(status: HealthWord) -> Self {
        Self::health_without(status, [])
    }

    /// The same of a gateway whose store has servers that are not used, for these causes.
    pub fn health_without(
        status: HealthWord,
        store: impl IntoIterator<Item = OutageCause>,
    ) -> Self {
        let code = match status {
            HealthWord::Alive | HealthWord::Ready => StatusCode::OK,
            HealthWord::Draining => StatusCode::SERVICE_UNAVAILABLE,
        };
        let without = |cause: OutageCause| Without {
            code: "store_away",
            cause: cause.code(),
            text: cause.text(),
        };
        let without = store.into_iter().map(without).collect();
        Self::document(code, JSON, &Health { status, without })
    }

    /// The same, with what the audit log is told.
    pub fn recorded(self, change: Option<Change>) -> Self {
        Self { change, ..self }
    }

    /// The metrics.
    pub fn metrics(text: String) -> Self {
        let status = StatusCode::OK;
        let body = text.into();
        Self { status, content_type: METRICS, body, change: None, is_page: false, etag: None }
    }

    /// A file of the page.
    pub fn page_file(file: PageFile) -> Self {
        let content_type = HeaderValue::from_static(file.content_type);
        let body = Bytes::from_static(file.text.as_bytes());
        Self { status: StatusCode::OK, content_type, body, change: None, is_page: true, etag: None }
    }

    /// The document that describes the API.
    pub fn api_document(text: &'static str) -> Self {
        let status = StatusCode::OK;
        let body = Bytes::from_static(text.as_bytes());
        Self { status, content_type: JSON, body, change: None, is_page: false, etag: None }
    }

    /// A stream of events.
    pub fn events(body: EventBody) -> Response<AdminBody> {
        let mut response = Response::new(Either::Right(body));
        response.headers_mut().extend(ALWAYS);
        response.headers_mut().insert(CONTENT_TYPE, EVENTS);
        response
    }

    fn document(status: StatusCode, content_type: HeaderValue, body: &impl Serialize) -> Self {
        let mut body = serde_json::to_vec_pretty(body).expect("an answer has texts as its keys");
        body.push(b'\n');
        let body = body.into();
        Self { status, content_type, body, change: None, is_page: false, etag: None }
    }

    /// A page of a list. Each item has a name, by which the next page is found.
    pub fn page<T: Serialize + JsonSchema>(
        items: Vec<(String, T)>,
        call: &Call,
    ) -> Result<Self, Problem> {
        Ok(Self::json(&Page::of(items, call)?))
    }

    /// The status, for the audit log.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The response.
    pub fn into_response(self) -> Response<AdminBody> {
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
    pub fn into_response(self) -> Response<AdminBody> {
        let answer = Answer::document(self.status, PROBLEM_JSON, &self.document());
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
    use serde_json::Value;

    use super::*;
    use crate::admin::calls::API;

    fn parse(query: &str) -> Result<Call, Problem> {
        API.find(&Method::GET, "/v1/policies")?.read("/v1/policies", Some(query))
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let mut target = "limit=2".to_owned();
        let mut seen = Vec::new();
        loop {
            let call = parse(&target).unwrap();
            let items = (0..5).map(|it| (format!("p {it}"), Value::from(it))).collect();
            let page = Answer::page(items, &call).unwrap();
            let page: Value = serde_json::from_slice(&page.body).unwrap();
            seen.extend(page["items"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_str() else { break };
            target = format!("limit=2&after={}", next.replace(' ', "%20"));
        }
        assert_eq!(seen, (0..5).map(Value::from).collect::<Vec<_>>());
        let call = parse("after=q").unwrap();
        assert!(Answer::page(vec![("p".to_owned(), Value::Null)], &call).is_err());
        for target in ["limit=0", "limit=1001", "limit=x", "limit="] {
            assert!(parse(target).is_err(), "{target}");
        }
    }
}
