//! The errors of the admin API, as `application/problem+json` (RFC 9457).

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::time::Span;

use super::audit::Change;
use crate::patches;

/// Why a call is not answered as asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub status: StatusCode,
    /// What is wrong, and what to do.
    pub detail: String,
    /// The mistakes of a configuration.
    pub errors: Vec<Mistake>,
    /// The methods that the path has, if the method is wrong.
    pub allow: Option<String>,
    /// When to try again.
    pub retry_after: Option<Span>,
    /// What was changed nevertheless, or may be, for the audit log.
    pub change: Option<Box<Change>>,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, detail, errors: Vec::new(), allow: None, retry_after: None, change: None }
    }

    /// The same problem of a call that has changed this.
    pub fn after(self, change: Change) -> Self {
        Self { change: Some(Box::new(change)), ..self }
    }

    /// The call has a mistake.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The configuration does not allow it.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// It may work later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// There were too many.
    pub fn too_many(detail: impl Into<String>, retry_after: Span) -> Self {
        let retry_after = Some(retry_after);
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// The document.
    pub fn document(&self) -> ProblemDocument<'_> {
        ProblemDocument {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: &self.errors,
        }
    }
}

/// Why a call is not answered as asked (RFC 9457).
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemDocument<'p> {
    /// Always `about:blank`: the status tells the kind.
    #[serde(rename = "type")]
    kind: &'p str,
    /// The name of the status.
    title: &'p str,
    /// The status of the response.
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// What is wrong, and what to do.
    detail: &'p str,
    /// The mistakes of a configuration or of a change, if there are any.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'p [Mistake],
}

/// A mistake of a configuration or of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mistake {
    /// The line of a configuration from 1; 0 for the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The column from 1; 0 for the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    /// What is wrong.
    message: String,
    /// What would be right. It may be empty.
    help: String,
}

impl Mistake {
    /// A mistake that has no place.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { line: None, column: None, message: message.into(), help: help.into() }
    }
}

impl From<ConfigProblem> for Mistake {
    fn from(problem: ConfigProblem) -> Self {
        let ConfigProblem { line, column, message, help, .. } = problem;
        Self { line: Some(line), column: Some(column), message, help }
    }
}

impl From<patches::Mistake> for Mistake {
    fn from(patches::Mistake { message, help }: patches::Mistake) -> Self {
        Self::new(message, help)
    }
}

/// A mistake in a configuration, or a warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Warning")]
pub struct ConfigProblem {
    /// Whether it is only a warning.
    #[serde(skip)]
    pub is_warning: bool,
    /// The line from 1; 0 for the whole file.
    pub line: u64,
    /// The column from 1; 0 for the whole file.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}
