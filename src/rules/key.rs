//! Keys: what one counter belongs to.

use http::HeaderName;

/// From which parts of a request a policy's key is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyExpr {
    /// `ip`: the client's address, cut to its prefix.
    Ip,
    /// `api_key`
    ApiKey,
    /// `user`: the user's id.
    User,
    /// `cookie:NAME`
    Cookie(Box<str>),
    /// `header:NAME`
    Header(HeaderName),
    /// `query:NAME`: the first such parameter, decoded.
    Query(Box<str>),
    /// `jwt:CLAIM`: a claim of the verified token, dots between nested names.
    Jwt(Box<str>),
    /// `param:NAME`: a parameter of the route's path.
    Param(Box<str>),
    /// `path`
    Path,
    /// `method`
    Method,
    /// `host`
    Host,
    /// `route`: the route's name.
    Route,
    /// `global`: one counter for all.
    Global,
    /// `{ first: [...] }`: the first that the request has.
    First(Vec<KeyExpr>),
    /// `{ all: [...] }`: all of them together; absent if one is.
    All(Vec<KeyExpr>),
}
