//! A policy's own answer to those it refuses.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};

/// A policy's own answer to those it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Status of the answer, 400 to 599.
    pub status: StatusCode,
    /// `Content-Type` of the body.
    pub content_type: HeaderValue,
    /// The body; `{retry_after}`, `{limit}`, `{remaining}` and `{policy}` are filled in.
    pub body: Arc<str>,
}
