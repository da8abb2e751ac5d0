//! The faults of bearer tokens, as responses name them.

/// The fault of the bearer token that a route demands (RFC 6750, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// The request has no token.
    #[error("this route asks for a bearer token, and the request has none")]
    Missing,
    /// The token is not signed by a known key, has expired, is for another audience, or
    /// lacks a required claim.
    #[error("the bearer token of this request is not valid, or not valid any more")]
    Invalid,
}
