//! The errors of the JSON API, as `application/problem+json` (RFC 9457).

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

/// Why a call is not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: StatusCode,
    /// What is wrong, and what to do.
    pub detail: String,
    /// The part of the body that is meant (RFC 6901). None: no part, or the whole body.
    pub pointer: Option<String>,
}

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemDocument {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), pointer: None }
    }

    /// The body has a mistake.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The caller may not do it.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// It contradicts an earlier call.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// What is meant has ended.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, detail)
    }

    /// It may work later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// The same problem, with this part of the body before its pointer.
    pub fn at(mut self, prefix: &str) -> Self {
        let rest = self.pointer.unwrap_or_default();
        self.pointer = Some(format!("{prefix}{rest}"));
        self
    }

    /// The same for a part that may be the whole body.
    pub fn within(self, prefix: &str) -> Self {
        if prefix.is_empty() { self } else { self.at(prefix) }
    }

    pub fn document(self) -> ProblemDocument {
        ProblemDocument {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: self.detail,
            pointer: self.pointer,
        }
    }

    /// The response.
    pub fn into_response(self) -> Response<Bytes> {
        let status = self.status;
        let mut response = json(status, &self.document());
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match status {
            StatusCode::UNAUTHORIZED => {
                fields.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                fields.insert(ALLOW, HeaderValue::from_static("POST"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// A response with this document.
pub fn json(status: StatusCode, document: &impl Serialize) -> Response<Bytes> {
    let body = serde_json::to_vec(document).unwrap_or_default();
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
