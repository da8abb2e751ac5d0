//! The errors of the admin API, as `application/problem+json` (RFC 9457).

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use tollgate_limiter::time::Span;

/// Why a call is not answered as asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// What is wrong, and what to do.
    pub(super) detail: String,
    /// The mistakes of a configuration.
    pub(super) errors: Vec<Value>,
    /// The methods that the path has, if the method is wrong.
    pub(super) allow: Option<String>,
    /// When to try again.
    pub(super) retry_after: Option<Span>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, detail, errors: Vec::new(), allow: None, retry_after: None }
    }

    /// The call has a mistake.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// There is no such thing.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The configuration does not allow it.
    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// It may work later.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// There were too many.
    pub(super) fn too_many(detail: impl Into<String>, retry_after: Span) -> Self {
        let retry_after = Some(retry_after);
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// The document.
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if !self.errors.is_empty() {
            body["errors"] = Value::from(self.errors.clone());
        }
        body
    }
}

/// A mistake in a configuration, or a warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigProblem {
    /// Whether it is only a warning.
    #[serde(skip)]
    pub(crate) is_warning: bool,
    /// The line from 1; 0 for the whole file.
    pub(crate) line: u64,
    /// The column from 1; 0 for the whole file.
    pub(crate) column: u64,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) help: String,
}
