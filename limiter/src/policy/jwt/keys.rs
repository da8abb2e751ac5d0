//! Keys that verify tokens: from a secret, a PEM text, or a key set.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use serde::Deserialize;

use crate::pem::{self, PemError};
use crate::policy::VerifyingKey;

/// The shortest secret for HS256, in bytes: as long as the hash (RFC 7518, section 3.2).
const MIN_SECRET: usize = 32;
/// The shortest modulus for RS256, in bytes (RFC 7518, section 3.3).
const MIN_MODULUS: usize = 256;
/// A point of P-256 as keys contain it: a tag and two coordinates (SEC 1, section 2.3.3).
const P256_POINT: usize = 65;
/// The most keys of a set: a token that names no key is tried with all of them.
const MAX_KEYS: usize = 32;

/// The errors of keys that cannot verify tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No algorithm was given.
    #[error("tokens need at least one algorithm: HS256, RS256, ES256 or EdDSA")]
    NoAlgorithm,
    /// An algorithm that is not supported.
    #[error("the algorithm {0:?} is not supported: use HS256, RS256, ES256 or EdDSA")]
    Unsupported(Algorithm),
    /// None of the allowed algorithms fits this key.
    #[error("this is a key for {fits:?}, which is not among the algorithms {allowed:?}")]
    OtherAlgorithm {
        /// The algorithm that the key is for.
        fits: Algorithm,
        /// The algorithms of the configuration.
        allowed: Vec<Algorithm>,
    },
    /// A secret that is shorter than HS256 requires.
    #[error("a secret for HS256 has at least {MIN_SECRET} bytes, this one has {0}")]
    ShortSecret(usize),
    /// A modulus that is shorter than RS256 requires.
    #[error("an RSA key for RS256 has at least 2048 bits")]
    ShortModulus,
    /// A private key in place of a public one.
    #[error("this is a private key: the gateway needs the public one only")]
    Private,
    /// Not a public key in PEM.
    #[error("this is not a public key in PEM form (`BEGIN PUBLIC KEY`): {0}")]
    Pem(#[from] PemError),
    /// Neither an RSA key, nor one of P-256, nor one of Ed25519.
    #[error("this is not a public key for RSA, P-256 or Ed25519")]
    Kind,
    /// An elliptic curve other than P-256.
    #[error("ES256 needs a key of the curve P-256, and this is one of another curve")]
    Curve,
    /// Not a JSON Web Key Set.
    #[error("this is not a JSON Web Key Set: {0}")]
    Jwks(#[from] serde_json::Error),
    /// A set without a usable key.
    #[error("the key set has no key for the algorithms {0:?}")]
    NoKey(Vec<Algorithm>),
    /// A malformed member of a set.
    #[error("the key {id} of the key set is malformed", id = .0.as_deref().unwrap_or("without `kid`"))]
    Member(Option<String>),
    /// A set of more than 32 usable keys.
    #[error("the key set has more than {MAX_KEYS} keys for signatures")]
    TooManyKeys,
}

/// A JSON Web Key Set whose members have not been checked yet.
#[derive(Deserialize)]
struct Published {
    keys: Vec<serde_json::Value>,
}

/// The usable part of a key set.
#[derive(Debug)]
pub struct PublishedKeys {
    /// At least one.
    pub keys: Vec<VerifyingKey>,
    /// The number of members that cannot be used.
    pub passed_over: usize,
}

impl VerifyingKey {
    /// A key for HS256.
    ///
    /// # Errors
    /// If the secret is too short, or HS256 is not among the algorithms.
    pub fn from_secret(secret: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeyError> {
        check_algorithms(algorithms)?;
        Self::new(None, DecodingKey::from_secret(secret), algorithms)
    }

    /// The public key in a PEM text: RSA, P-256 or Ed25519 (RFC 7468, section 13).
    ///
    /// # Errors
    /// If the text is not such a key, or its algorithm is not among the algorithms.
    pub fn from_pem(text: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeyError> {
        check_algorithms(algorithms)?;
        if pem::private_key(text).is_ok() {
            return Err(KeyError::Private);
        }
        // A certificate is refused: its key would be used, and its signature would not be
        // checked.
        let pem = pem::public_key(text)?;
        let key = DecodingKey::from_rsa_pem(pem.as_bytes())
            .or_else(|_| DecodingKey::from_ec_pem(pem.as_bytes()))
            .or_else(|_| DecodingKey::from_ed_pem(pem.as_bytes()))
            .map_err(|_| KeyError::Kind)?;
        Self::new(None, key, algorithms)
    }

    /// The keys of a JSON Web Key Set (RFC 7517, section 5) that verify
    /// signatures by one of the algorithms. Others are ignored, as the RFC advises.
    ///
    /// # Errors
    /// If the text is not a key set, or has no such key, or more than 32.
    pub fn from_jwks(text: &str, algorithms: &[Algorithm]) -> Result<Vec<Self>, KeyError> {
        check_algorithms(algorithms)?;
        let set: JwkSet = serde_json::from_str(text)?;
        let keys = set
            .keys
            .iter()
            .filter(|jwk| is_for_signatures(jwk))
            .filter_map(|jwk| Self::from_jwk(jwk, algorithms).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            0 => Err(KeyError::NoKey(algorithms.into())),
            1..=MAX_KEYS => Ok(keys),
            _ => Err(KeyError::TooManyKeys),
        }
    }

    /// The keys of a set that another party publishes. A member that cannot be used is
    /// skipped, whatever is wrong with it.
    ///
    /// # Errors
    /// If the bytes are not a key set, or it has no such key, or more than 32.
    pub fn from_published(
        bytes: &[u8],
        algorithms: &[Algorithm],
    ) -> Result<PublishedKeys, KeyError> {
        check_algorithms(algorithms)?;
        let Published { keys: members } = serde_json::from_slice(bytes)?;
        let count = members.len();
        let of = |member| {
            let jwk: Jwk = serde_json::from_value(member).ok()?;
            Some(jwk)
                .filter(is_for_signatures)
                .and_then(|jwk| Self::from_jwk(&jwk, algorithms).ok()?)
        };
        let keys: Vec<_> = members.into_iter().filter_map(of).collect();
        match keys.len() {
            0 => Err(KeyError::NoKey(algorithms.into())),
            used @ 1..=MAX_KEYS => Ok(PublishedKeys { keys, passed_over: count - used }),
            _ => Err(KeyError::TooManyKeys),
        }
    }

    fn from_jwk(jwk: &Jwk, algorithms: &[Algorithm]) -> Result<Option<Self>, KeyError> {
        let id = jwk.common.key_id.clone();
        let key = DecodingKey::from_jwk(jwk).map_err(|_| KeyError::Member(id.clone()))?;
        match Self::new(id, key, algorithms) {
            Ok(key) => Ok(Some(key).filter(|key| {
                let said = jwk.common.key_algorithm;
                said.is_none_or(|said| key.algorithms.iter().any(|&own| said == own.into()))
            })),
            Err(KeyError::OtherAlgorithm { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps only the algorithm that fits this kind of key, so that a public key can never
    /// be used as a secret (RFC 8725, section 2.1).
    fn new(id: Option<String>, key: DecodingKey, allowed: &[Algorithm]) -> Result<Self, KeyError> {
        let fits = match key.family() {
            AlgorithmFamily::Hmac => Algorithm::HS256,
            AlgorithmFamily::Rsa => Algorithm::RS256,
            AlgorithmFamily::Ec => Algorithm::ES256,
            AlgorithmFamily::Ed => Algorithm::EdDSA,
        };
        if !allowed.contains(&fits) {
            return Err(KeyError::OtherAlgorithm { fits, allowed: allowed.into() });
        }
        check_strength(&key)?;
        Ok(Self { id, key, algorithms: vec![fits] })
    }
}

fn check_algorithms(algorithms: &[Algorithm]) -> Result<(), KeyError> {
    use Algorithm::{ES256, EdDSA, HS256, RS256};
    if algorithms.is_empty() {
        return Err(KeyError::NoAlgorithm);
    }
    match algorithms.iter().find(|algorithm| ![HS256, RS256, ES256, EdDSA].contains(algorithm)) {
        Some(&stranger) => Err(KeyError::Unsupported(stranger)),
        None => Ok(()),
    }
}

fn check_strength(key: &DecodingKey) -> Result<(), KeyError> {
    let length = match key.kind() {
        DecodingKeyKind::SecretOrDer(bytes) => bytes.len(),
        DecodingKeyKind::RsaModulusExponent { n, .. } => n.len(),
    };
    match key.family() {
        AlgorithmFamily::Hmac if length < MIN_SECRET => Err(KeyError::ShortSecret(length)),
        // The DER form is slightly longer than the modulus that it contains.
        AlgorithmFamily::Rsa if length < MIN_MODULUS => Err(KeyError::ShortModulus),
        AlgorithmFamily::Ec if length != P256_POINT => Err(KeyError::Curve),
        _ => Ok(()),
    }
}

/// Whether the set declares the key for signatures, and its kind is supported.
fn is_for_signatures(jwk: &Jwk) -> bool {
    let offered = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
    offered
        && match &jwk.algorithm {
            AlgorithmParameters::EllipticCurve(key) => key.curve == EllipticCurve::P256,
            AlgorithmParameters::OctetKeyPair(key) => key.curve == EllipticCurve::Ed25519,
            AlgorithmParameters::RSA(_) | AlgorithmParameters::OctetKey(_) => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests;
