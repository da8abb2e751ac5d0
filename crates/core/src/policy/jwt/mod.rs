//! Bearer tokens that identify the user (RFC 7519).
//!
//! A token counts only if its signature is valid under a configured key, by an algorithm
//! that the configuration allows for that key (RFC 8725, section 3.1). The key and the
//! algorithm that the token itself names are never sufficient. The caller passes the time
//! `now`, and tokens are checked against it at each use. Verified tokens are cached under
//! keyed digests, in bounded memory. Failures are not cached.

mod algorithm;
mod claims;
mod form;
mod key_error;
mod key_set;
mod keys;
mod set;
mod settings;
mod signed;
mod strength;
mod verifying_key;

use std::sync::Arc;

use quick_cache::sync::Cache;

use self::claims::claims_of;
pub use self::key_error::{KeyError, LeftOut};
pub use self::key_set::{KeySet, RefreshRequest};
pub use self::set::UsableKeys;
pub use self::settings::{JwtSettings, TokenKeys};
use self::signed::SignedToken;
pub use self::verifying_key::VerifyingKey;
use super::token::{Claims, Fault, VerifyToken};
use super::token_fault::MAX_TOKEN;
use crate::digest::Secret;
use crate::time::Timestamp;

/// The largest number of cached tokens.
const MAX_REMEMBERED: usize = 10_000;

/// Verifies tokens, and caches those that are valid.
#[derive(Debug)]
pub(super) struct TokenVerifier {
    settings: JwtSettings,
    /// The claims that are kept of a token, sorted.
    wanted: Arc<[Box<str>]>,
    verified: Cache<u128, Verified>,
    secret: Secret,
}

/// The claims of a token that was valid.
#[derive(Clone, Debug)]
struct Verified {
    claims: Arc<Claims>,
    /// The version of the [`KeySet`] that verified it. 0 for keys that do not change.
    generation: u64,
}

impl TokenVerifier {
    /// `claims` are those that policies count by. The claim of the user's id is added.
    pub(super) fn new(settings: JwtSettings, claims: Vec<Box<str>>, secret: Secret) -> Self {
        let mut wanted = claims;
        wanted.push(settings.claim.as_str().into());
        wanted.sort_unstable();
        wanted.dedup();
        Self { settings, wanted: wanted.into(), verified: Cache::new(MAX_REMEMBERED), secret }
    }

    /// The version of the keys that are in use.
    fn generation(&self) -> u64 {
        match &self.settings.keys {
            TokenKeys::Known(_) => 0,
            TokenKeys::Fetched(set) => set.generation(),
        }
    }

    /// Whether this version had no keys yet.
    fn awaits_keys(&self, generation: u64) -> bool {
        matches!(self.settings.keys, TokenKeys::Fetched(_)) && generation == 0
    }

    /// Whether a new key may have signed the token: it names an unknown key, and an
    /// algorithm that is allowed.
    fn names_unknown_key(&self, token: &SignedToken<'_>, keys: &[VerifyingKey]) -> bool {
        token.kid.is_some()
            && self.settings.algorithms.contains(&token.algorithm)
            && !keys.iter().any(|key| key.id == token.kid)
    }
}

impl VerifyToken for TokenVerifier {
    fn can_verify(&self) -> bool {
        self.settings.keys.can_verify()
    }

    fn verify(&self, token: &[u8], now: Timestamp) -> Result<Arc<Claims>, Fault> {
        if token.len() > MAX_TOKEN {
            return Err(Fault::Invalid);
        }
        let mut digest = self.secret.digest();
        digest.value(token);
        let key = digest.finish();
        let known = self.verified.get(&key);
        if let Some(Verified { claims, .. }) = known.filter(|it| it.generation == self.generation())
        {
            return if claims.hold_at(now) { Ok(claims) } else { Err(Fault::Invalid) };
        }
        let signed = SignedToken::parse(token);
        let payload_by = |keys: &[VerifyingKey]| signed.as_ref()?.claims(keys, &self.settings);
        let (payload, generation) = match &self.settings.keys {
            TokenKeys::Known(keys) => (payload_by(keys), 0),
            TokenKeys::Fetched(set) => {
                let current = set.keys();
                let payload = payload_by(&current.keys);
                let names_unknown_key =
                    |signed: &SignedToken<'_>| self.names_unknown_key(signed, &current.keys);
                if payload.is_none() && signed.as_ref().is_some_and(names_unknown_key) {
                    set.request_refresh();
                }
                (payload, current.generation)
            }
        };
        let payload = payload.ok_or_else(|| match form::fault_of(token) {
            Fault::Invalid if self.awaits_keys(generation) => Fault::Unverifiable,
            fault => fault,
        })?;
        let claims = claims_of(&payload, &self.wanted, self.settings.leeway);
        let claims = claims.filter(|claims| claims.hold_at(now)).ok_or(Fault::Invalid)?;
        let claims = Arc::new(claims);
        self.verified.insert(key, Verified { claims: Arc::clone(&claims), generation });
        Ok(claims)
    }
}

#[cfg(test)]
mod tests;
