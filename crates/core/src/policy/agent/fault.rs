//! Why a request has no agent.

/// Why a request has no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFault {
    /// It has no signature of an agent.
    Unsigned,
    /// A field of the signature cannot be read, or lacks something.
    Malformed,
    /// A field or the number of its parts is beyond the bounds.
    TooLarge,
    /// The signature is not valid yet, has expired, or is valid for more than an hour.
    NotNow,
    /// The signature does not cover the authority and the name of the agent.
    NotCovered,
    /// The signature covers a part of the request that cannot be compared here.
    Unsupported,
    /// The agent is not listed.
    NotListed,
    /// The keys of the agent have not been fetched yet.
    NoKeys,
    /// The agent has no key with this name.
    UnknownKey,
    /// The signature is not by this key, or the request was changed.
    Wrong,
}

impl AgentFault {
    /// One word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::NotNow => "not_now",
            Self::NotCovered => "not_covered",
            Self::Unsupported => "unsupported",
            Self::NotListed => "not_listed",
            Self::NoKeys => "no_keys",
            Self::UnknownKey => "unknown_key",
            Self::Wrong => "wrong",
        }
    }
}
