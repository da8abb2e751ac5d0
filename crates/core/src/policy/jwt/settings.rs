//! The settings that verify bearer tokens.

use std::sync::Arc;

use jsonwebtoken::Algorithm;

use super::key_set::KeySet;
use super::verifying_key::VerifyingKey;
use crate::time::Span;

/// The settings that verify bearer tokens (RFC 7519).
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The keys, each with its allowed algorithms.
    pub keys: TokenKeys,
    /// All algorithms that may sign a token.
    pub algorithms: Vec<Algorithm>,
    /// `iss` must be one of these. If there are none, any issuer is accepted.
    pub issuers: Vec<String>,
    /// `aud` must contain one of these. If there are none, any audience is accepted.
    pub audiences: Vec<String>,
    /// The claim that is the user's id, with dots between nested names.
    pub claim: String,
    /// How much the clock of an issuer may differ: a token is valid from `nbf` minus this
    /// time until `exp` plus this time. At most [`Self::MAX_LEEWAY`].
    pub leeway: Span,
}

impl JwtSettings {
    /// The usual leeway. Machines that synchronise their clocks differ by much less.
    pub const DEFAULT_LEEWAY: Span = Span::from_secs(30);
    /// The longest leeway. RFC 7519, section 4.1.4, allows "usually no more than a few
    /// minutes".
    pub const MAX_LEEWAY: Span = Span::from_secs(5 * 60);

    /// Accepts tokens of any issuer and for any audience. The user is `sub`, and the leeway
    /// is the usual one.
    pub fn new(keys: TokenKeys, algorithms: Vec<Algorithm>) -> Self {
        Self {
            keys,
            algorithms,
            issuers: Vec::new(),
            audiences: Vec::new(),
            claim: "sub".to_owned(),
            leeway: Self::DEFAULT_LEEWAY,
        }
    }

    pub(in crate::policy) const fn keys(&self) -> &TokenKeys {
        &self.keys
    }

    pub(in crate::policy) const fn keys_mut(&mut self) -> &mut TokenKeys {
        &mut self.keys
    }

    /// The claim that is the user's id.
    pub(in crate::policy) fn claim(&self) -> &str {
        &self.claim
    }
}

/// The source of the keys that verify tokens.
#[derive(Clone, Debug)]
pub enum TokenKeys {
    /// The keys are known. Without keys no token is valid.
    Known(Vec<VerifyingKey>),
    /// The keys are fetched.
    Fetched(Arc<KeySet>),
}

impl TokenKeys {
    /// Whether a token can be valid now.
    pub fn can_verify(&self) -> bool {
        match self {
            Self::Known(keys) => !keys.is_empty(),
            Self::Fetched(set) => set.has_come(),
        }
    }
}
