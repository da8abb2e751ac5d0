//! What a rate limit service is told by the configuration.

use std::collections::HashMap;

use super::{Domains, NativeRule, Switches};

/// What a rate limit service knows.
#[derive(Clone, Debug, Default)]
pub struct RateLimits {
    /// The domains of a configuration directory.
    pub domains: Domains,
    /// What changes the rules of these domains.
    pub switches: Switches,
    /// The domains of the gateway's own policies.
    pub native: HashMap<Box<str>, Vec<NativeRule>>,
    /// The header fields that a response adds.
    pub fields: Vec<Dialect>,
}

/// What a rate limit service knows at a time.
#[derive(Clone, Copy, Debug)]
pub struct InUse<'l> {
    /// What the configuration says.
    pub limits: &'l RateLimits,
    /// The domains of files or of another server. None: that server has not told any yet.
    pub domains: Option<&'l Domains>,
}

/// Header fields about limits. Envoy itself writes those with names in `x-ratelimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `RateLimit-Policy` and `RateLimit`, with all limits of the request.
    Ietf,
    /// `Retry-After`, if the request is over a limit.
    RetryAfter,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, with the limit that is the
    /// closest. envoyproxy/ratelimit writes them.
    Erl,
}
