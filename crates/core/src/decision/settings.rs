//! The settings of the fields about limits.

/// The fields that inform a client about its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSettings {
    /// The families of fields, in the order in which they are written.
    pub dialects: Vec<Dialect>,
    /// Whether scripts of other origins may read them (`Access-Control-Expose-Headers`).
    pub expose_cors: bool,
}

/// A family of header fields about limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `X-Ratelimit-Limit`, `-Remaining`, `-Reset`, and `-Retry-After` on a refusal.
    XRatelimit,
    /// `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11).
    Ietf,
    /// `Retry-After` on a refusal (RFC 9110, section 10.2.3).
    RetryAfter,
}

impl Default for HeaderSettings {
    fn default() -> Self {
        Self {
            dialects: vec![Dialect::XRatelimit, Dialect::Ietf, Dialect::RetryAfter],
            expose_cors: true,
        }
    }
}
