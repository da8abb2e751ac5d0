//! How bearer tokens are verified: settings.

use std::sync::Arc;

use jsonwebtoken::Algorithm;

use super::key_set::KeySet;
use super::verifying_key::VerifyingKey;

/// How bearer tokens are verified (RFC 7519).
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The keys, each with the algorithms it may be used for.
    pub keys: TokenKeys,
    /// All algorithms that a token may be signed by.
    pub algorithms: Vec<Algorithm>,
    /// `iss` must be one of these; none: it may be anything.
    pub issuers: Vec<String>,
    /// `aud` must contain one of these; none: it may be anything.
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

/// Where the keys come from that tokens are verified with.
#[derive(Clone, Debug)]
pub enum TokenKeys {
    /// They are known. Without any no token holds.
    Known(Vec<VerifyingKey>),
    /// They are fetched.
    Fetched(Arc<KeySet>),
}

impl TokenKeys {
    /// Whether a token can hold now.
    pub fn can_verify(&self) -> bool {
        match self {
            Self::Known(keys) => !keys.is_empty(),
            Self::Fetched(set) => set.has_come(),
        }
    }
}
