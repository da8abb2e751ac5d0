//! Why a policy can count nothing for a request.

/// Why a policy can count nothing for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncountable {
    /// The policy counts money, and the model of the request has no price.
    Model,
    /// The limit of the request's API key or team is not in the units of the policy.
    KeyLimit,
}
