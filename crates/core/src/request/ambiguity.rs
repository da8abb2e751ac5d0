//! The errors of requests that have no single meaning.

/// The reason why a request has no meaning, or several meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguity {
    /// RFC 9110, section 9.1: `get` is not `GET`, but some backends treat it as `GET`.
    #[error("the request's method is not one; methods are written in capitals, like GET")]
    BadMethod,
    /// RFC 9112, section 3.2: a request of HTTP/1.1 has exactly one Host. One of
    /// HTTP/2 may name its host as `:authority` instead (RFC 9113, section 8.3.1).
    #[error("the request has no Host field")]
    NoHost,
    /// RFC 9112, section 3.2.
    #[error("the request has more than one Host field")]
    ManyHosts,
    /// RFC 9112, section 3.2: the value must be `host [":" port]`.
    #[error("the Host field is not a host")]
    BadHost,
    /// RFC 9112, section 3.2.2: a target in absolute form names the host that Host names.
    #[error("the target names another host than the Host field")]
    TwoHosts,
    /// Neither `/path`, `http://host/path`, nor `*` with OPTIONS.
    #[error("the request's target is not one that a gateway serves")]
    BadTarget,
    /// RFC 3986, section 2.1: `%` and two hexadecimal digits.
    #[error("the path has a `%` that begins no escape")]
    BadEscape,
    /// Backends interpret `/a/../b` and `/a/%2e%2e/b` differently.
    #[error("the path has a segment `.` or `..`")]
    DotSegment,
    /// `/a/;x/b` is `/a/b` for some backends.
    #[error("the path has a segment that is empty but for a parameter")]
    EmptySegment,
    /// Backends interpret control characters and `\` differently.
    #[error("the path has a character that does not belong there")]
    BadCharacter,
    /// An escaped slash in the path, a field that replaces the method, or the second of two values
    /// of a name selects another route if the backend evaluates it.
    #[error("the request has a path, a method or a value that can be read in two ways")]
    TwoRoutes,
    /// A value that requests are counted by is ambiguous: an API key, a token, a cookie.
    #[error(
        "the request carries a key or a plan that can be read in two ways: send it once, \
         and in one place"
    )]
    ManyKeys,
    /// RFC 9112, section 6.1: the gateway can decode only `chunked`, applied once. Backends
    /// interpret `chunked, chunked` differently.
    #[error("the request has a transfer coding other than `chunked`")]
    BadCoding,
}
