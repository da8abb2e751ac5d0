//! What is wrong with a bearer token, as clients are told it.

/// What is wrong with the bearer token that a route asks for (RFC 6750, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// There is none.
    #[error("this route asks for a bearer token, and the request has none")]
    Missing,
    /// There is one, but it is not signed by a known key, has expired, is for others,
    /// or does not say what is asked for.
    #[error("the bearer token of this request is not valid here, or not any more")]
    Invalid,
}
