//! A signed token in the compact form (RFC 7515, section 7.1), and its verification.
//!
//! The header is read here, because the crate `jsonwebtoken` does not know the algorithm name
//! `Ed25519`. The crate verifies the signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, crypto};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::algorithm::algorithm_named;
use super::settings::JwtSettings;
use super::verifying_key::VerifyingKey;

/// A token whose signature has not been verified.
pub(super) struct SignedToken<'t> {
    pub(super) algorithm: Algorithm,
    /// The name of the key that has signed it.
    pub(super) kid: Option<String>,
    /// The signed part: header and payload.
    message: &'t str,
    payload: &'t str,
    signature: &'t str,
}

/// The members of a header that matter here (RFC 7515, section 4.1).
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crit: Option<IgnoredAny>,
}

/// The claims that have a meaning in every token. None may occur twice: two readers could
/// take different values (RFC 7519, section 4).
#[derive(Deserialize)]
struct Registered {
    iss: Option<Value>,
    aud: Option<Value>,
    #[serde(rename = "sub")]
    _sub: Option<IgnoredAny>,
    #[serde(rename = "exp")]
    _exp: Option<IgnoredAny>,
    #[serde(rename = "nbf")]
    _nbf: Option<IgnoredAny>,
}

impl<'t> SignedToken<'t> {
    /// None if the text is not a signed token, or its algorithm is not supported.
    pub(super) fn parse(token: &'t [u8]) -> Option<Self> {
        let (message, signature) = std::str::from_utf8(token).ok()?.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let header = decoded(header)?;
        // The type of the members that matter skips the others without reading their texts.
        let _: Value = object(&header)?;
        let Header { alg, kid, crit } = object(&header)?;
        // An unknown extension may change the meaning of the token (RFC 7515, section
        // 4.1.11).
        if crit.is_some() {
            return None;
        }
        Some(Self { algorithm: algorithm_named(&alg)?, kid, message, payload, signature })
    }

    /// The claims, if one of the keys verifies the signature, and the settings accept the
    /// issuer and the audience. Times are not checked, because a cached token must be
    /// checked again at each use.
    pub(super) fn claims(&self, keys: &[VerifyingKey], settings: &JwtSettings) -> Option<Value> {
        if !self.keys_in(keys).any(|key| self.is_signed_by(key)) {
            return None;
        }
        let payload = decoded(self.payload)?;
        let Registered { iss, aud, .. } = object(&payload)?;
        let is_accepted = is_one_of(iss.as_ref(), &settings.issuers)
            && is_among(aud.as_ref(), &settings.audiences);
        if is_accepted { object(&payload) } else { None }
    }

    /// The keys that may have signed the token.
    fn keys_in<'k>(&self, keys: &'k [VerifyingKey]) -> impl Iterator<Item = &'k VerifyingKey> {
        let named = self.kid.as_deref().filter(|_| keys.iter().any(|key| key.id.is_some()));
        keys.iter().filter(move |key| {
            let by_name = named.is_none() || key.id.as_deref() == named;
            by_name && key.fits(self.algorithm)
        })
    }

    fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        let message = self.message.as_bytes();
        crypto::verify(self.signature, message, &key.key, self.algorithm).unwrap_or(false)
    }
}

/// What a member has, also if it is null.
fn present<'de, D: Deserializer<'de>>(member: D) -> Result<Option<IgnoredAny>, D::Error> {
    IgnoredAny::deserialize(member).map(Some)
}

/// Whether a claim, which is a text, has one of these values. Without values, anything is accepted.
fn is_one_of(claim: Option<&Value>, accepted: &[String]) -> bool {
    let text = claim.and_then(Value::as_str);
    accepted.is_empty() || text.is_some_and(|text| accepted.iter().any(|it| it == text))
}

/// Whether a claim, which is a text or a list of texts, has one of these values. Without
/// values, anything is accepted.
fn is_among(claim: Option<&Value>, accepted: &[String]) -> bool {
    let is_text = |text: &str| accepted.iter().any(|accepted| accepted == text);
    accepted.is_empty()
        || match claim {
            Some(Value::String(text)) => is_text(text),
            Some(Value::Array(items)) => {
                items.iter().all(Value::is_string)
                    && items.iter().filter_map(Value::as_str).any(is_text)
            }
            _ => false,
        }
}

/// Only the canonical form is accepted, see [`form`](super::form).
fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

/// Header and payload are objects. The types here would also be read from lists.
fn object<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    text.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice(text).ok())?
}
