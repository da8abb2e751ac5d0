//! Bearer tokens that identify the user (RFC 7519).
//!
//! A token counts only if its signature is valid under a configured key, by an algorithm
//! that the configuration allows for that key (RFC 8725, section 3.1). The key and the
//! algorithm that the token itself names are never sufficient. The caller passes the time
//! `now`, and tokens are checked against it at each use. Verified tokens are cached under
//! keyed digests, in bounded memory. Failures are not cached.

mod claims;
mod form;
mod key_set;
mod keys;
mod settings;
mod verifying_key;

use std::sync::Arc;

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use quick_cache::sync::Cache;
use serde_json::Value;

pub(super) use self::claims::Claims;
pub(super) use self::form::Fault;
pub use self::key_set::{KeySet, RefreshRequest};
pub use self::keys::{KeyError, PublishedKeys};
pub use self::settings::{JwtSettings, TokenKeys};
pub use self::verifying_key::VerifyingKey;
use crate::digest::Secret;
use crate::time::Timestamp;

/// The longest token that is verified, in bytes.
const MAX_TOKEN: usize = 16 * 1024;
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

    /// The claims of a token that is valid at `now`.
    ///
    /// # Errors
    /// The reason why the token is not valid, see [`Fault`].
    pub(super) fn verify(&self, token: &[u8], now: Timestamp) -> Result<Arc<Claims>, Fault> {
        if token.len() > MAX_TOKEN {
            return Err(Fault::Invalid);
        }
        let mut digest = self.secret.digest();
        digest.value(token);
        let key = digest.finish();
        if let Some(Verified { claims, generation }) = self.verified.get(&key)
            && generation == self.generation()
        {
            return if claims.hold_at(now) { Ok(claims) } else { Err(Fault::Invalid) };
        }
        let (payload, generation) = match &self.settings.keys {
            TokenKeys::Known(keys) => (self.signed_payload(token, keys), 0),
            TokenKeys::Fetched(set) => {
                let current = set.keys();
                let payload = self.signed_payload(token, &current.keys);
                if payload.is_none() && self.names_unknown_key(token, &current.keys) {
                    set.request_refresh();
                }
                (payload, current.generation)
            }
        };
        let payload = payload.ok_or_else(|| match form::fault_of(token) {
            Fault::Invalid if self.awaits_keys(generation) => Fault::Unverifiable,
            fault => fault,
        })?;
        let claims = Claims::of(&payload, &self.wanted, self.settings.leeway);
        let claims = claims.filter(|claims| claims.hold_at(now)).ok_or(Fault::Invalid)?;
        let claims = Arc::new(claims);
        self.verified.insert(key, Verified { claims: Arc::clone(&claims), generation });
        Ok(claims)
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
    fn names_unknown_key(&self, token: &[u8], keys: &[VerifyingKey]) -> bool {
        let Ok(Header { alg, kid: Some(kid), .. }) = decode_header(token) else { return false };
        self.settings.algorithms.contains(&alg)
            && !keys.iter().any(|key| key.id.as_deref() == Some(&*kid))
    }

    /// The claims of the token, if its signature, issuer and audience are valid.
    fn signed_payload(&self, token: &[u8], keys: &[VerifyingKey]) -> Option<Value> {
        let header = decode_header(token).ok()?;
        // An unknown extension may change the meaning of the token (RFC 7515, section
        // 4.1.11).
        if header.crit.is_some() {
            return None;
        }
        let validation = self.validation(header.alg);
        keys_for(keys, &header)
            .find_map(|key| decode(token, &key.key, &validation).ok())
            .map(|token| token.claims)
    }

    /// The crate checks signature, issuer and audience. It does not check times, because it
    /// would read the system's clock, and a cached token must be checked again at each use.
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let JwtSettings { issuers, audiences, .. } = &self.settings;
        validation.validate_aud = !audiences.is_empty();
        if !audiences.is_empty() {
            validation.set_audience(audiences);
            validation.required_spec_claims.insert("aud".into());
        }
        if !issuers.is_empty() {
            validation.set_issuer(issuers);
            validation.required_spec_claims.insert("iss".into());
        }
        validation
    }
}

/// The keys that may have signed a token with this header.
fn keys_for<'k>(
    keys: &'k [VerifyingKey],
    header: &'k Header,
) -> impl Iterator<Item = &'k VerifyingKey> {
    let named = header.kid.as_deref().filter(|_| keys.iter().any(|key| key.id.is_some()));
    keys.iter().filter(move |key| {
        let by_name = named.is_none() || key.id.as_deref() == named;
        by_name && key.algorithms.contains(&header.alg) && key.key.family() == header.alg.family()
    })
}

#[cfg(test)]
mod tests;
