//! The settings that verify bearer tokens.

use std::sync::Arc;

use jsonwebtoken::Algorithm;

use super::key_set::KeySet;
use super::verifying_key::VerifyingKey;

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
}

impl JwtSettings {
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
