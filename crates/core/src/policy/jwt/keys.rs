//! Keys that verify tokens: from a secret, or a PEM text.

use aws_lc_rs::rsa;
use aws_lc_rs::signature::RsaPublicKeyComponents;
use jsonwebtoken::{Algorithm, DecodingKey};

use super::algorithm::KeyKind;
use super::key_error::KeyError;
use super::strength;
use crate::pem;
use crate::policy::VerifyingKey;

impl VerifyingKey {
    /// A key for HS256, HS384 or HS512.
    ///
    /// # Errors
    /// If the secret is too short for one of the algorithms, or none of them uses secrets.
    pub fn from_secret(secret: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeyError> {
        let key = DecodingKey::from_secret(secret);
        Self::new(None, KeyKind::Secret, key, check_algorithms(algorithms)?)
    }

    /// The public key in a PEM text: RSA, P-256, P-384 or Ed25519 (RFC 7468, section 13).
    ///
    /// # Errors
    /// If the text is not such a key, it cannot verify anything, or none of the algorithms
    /// uses it.
    pub fn from_pem(text: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeyError> {
        check_algorithms(algorithms)?;
        if pem::private_key(text).is_ok() {
            return Err(KeyError::Private);
        }
        // A certificate is refused: its key would be used, and its signature would not be
        // checked.
        let pem = pem::public_key(text)?;
        let (kind, key) = public_key(pem.as_bytes())?;
        Self::new(None, kind, key, algorithms)
    }

    /// A key that is used with those of the algorithms that its kind has.
    pub(super) fn new(
        id: Option<String>,
        kind: KeyKind,
        key: DecodingKey,
        allowed: &[Algorithm],
    ) -> Result<Self, KeyError> {
        let algorithms: Vec<_> =
            allowed.iter().copied().filter(|it| kind.algorithms().contains(it)).collect();
        if algorithms.is_empty() {
            return Err(KeyError::OtherAlgorithm { kind, allowed: allowed.into() });
        }
        strength::check(kind, &key, &algorithms)?;
        Ok(Self { id, key, algorithms })
    }
}

pub(super) fn check_algorithms(algorithms: &[Algorithm]) -> Result<&[Algorithm], KeyError> {
    if algorithms.is_empty() { Err(KeyError::NoAlgorithm) } else { Ok(algorithms) }
}

/// The key in a PEM text.
fn public_key(pem: &[u8]) -> Result<(KeyKind, DecodingKey), KeyError> {
    if let Ok(rsa) = DecodingKey::from_rsa_pem(pem) {
        let der = rsa.try_get_as_bytes().map_err(|_| KeyError::Kind)?;
        let key = rsa::PublicKey::from_der(der).map_err(|_| KeyError::NoRsaKey)?;
        let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(&key);
        return Ok((KeyKind::Rsa, DecodingKey::from_rsa_raw_components(&n, &e)));
    }
    if let Ok(key) = DecodingKey::from_ec_pem(pem) {
        // A tag and two coordinates (SEC 1, section 2.3.3).
        let kind = match key.try_get_as_bytes().map_or(0, <[u8]>::len) {
            65 => KeyKind::P256,
            97 => KeyKind::P384,
            _ => return Err(KeyError::Curve),
        };
        return Ok((kind, key));
    }
    let key = DecodingKey::from_ed_pem(pem).map_err(|_| KeyError::Kind)?;
    Ok((KeyKind::Ed25519, key))
}

#[cfg(test)]
mod tests;
