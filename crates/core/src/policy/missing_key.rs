//! Requests without the key of a policy.

/// What a policy does with a request without its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// It is counted by the client's address.
    #[default]
    Ip,
    /// The policy does not count it.
    Skip,
    /// It is refused with 403.
    Deny,
    /// It is refused with 401, which asks the client for a bearer token (RFC 6750). Only for keys
    /// that a token can give, such as the user with verified tokens, and API keys.
    Unauthorized,
}
