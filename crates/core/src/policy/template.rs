//! The response of a policy to requests that it refuses.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};

/// The response of a policy to requests that it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The status of the response, 400 to 599.
    pub status: StatusCode,
    /// The `Content-Type` of the body.
    pub content_type: HeaderValue,
    /// The body. `{retry_after}`, `{limit}`, `{remaining}` and `{policy}` are replaced by
    /// values.
    pub body: Arc<str>,
}

impl Template {
    /// The names that may occur in braces.
    pub const PLACEHOLDERS: [&'static str; 4] = ["retry_after", "limit", "remaining", "policy"];
}
