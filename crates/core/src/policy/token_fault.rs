//! The faults of bearer tokens, as responses name them.

/// The longest token that is verified, in bytes.
pub(super) const MAX_TOKEN: usize = 16 * 1024;

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
    /// The token is longer than 16 KiB. It is not verified, because a client could keep the
    /// gateway busy with long tokens.
    #[error("the bearer token of this request is longer than 16 KiB, and is not verified")]
    TooLong,
}
