//! Whether a key can verify tokens, and is strong enough.
//!
//! A key that cannot verify anything would be in use without a word, and every token that it
//! has signed would be refused.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RsaPublicKeyComponents, VerificationAlgorithm,
};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};

use super::algorithm::{KeyKind, min_secret};
use super::key_error::KeyError;

/// The bits of a modulus: RFC 7518, section 3.3, and the most that aws-lc verifies with.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Checks a key of this kind, which is used with these algorithms.
pub(super) fn check(
    kind: KeyKind,
    key: &DecodingKey,
    algorithms: &[Algorithm],
) -> Result<(), KeyError> {
    match (kind, key.kind()) {
        (KeyKind::Secret, DecodingKeyKind::SecretOrDer(secret)) => {
            check_secret(secret.len(), algorithms)
        }
        (KeyKind::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => check_rsa(n, e),
        (KeyKind::P256, DecodingKeyKind::SecretOrDer(point)) => {
            check_point(&ECDSA_P256_SHA256_FIXED, point, "P-256")
        }
        (KeyKind::P384, DecodingKeyKind::SecretOrDer(point)) => {
            check_point(&ECDSA_P384_SHA384_FIXED, point, "P-384")
        }
        (KeyKind::Ed25519, DecodingKeyKind::SecretOrDer(point)) => {
            check_point(&ED25519, point, "Ed25519")
        }
        _ => Err(KeyError::Kind),
    }
}

/// A secret must be long enough for each algorithm that it is used with.
fn check_secret(bytes: usize, algorithms: &[Algorithm]) -> Result<(), KeyError> {
    match algorithms.iter().find(|&&algorithm| bytes < min_secret(algorithm)) {
        Some(&algorithm) => Err(KeyError::ShortSecret { algorithm, bytes }),
        None => Ok(()),
    }
}

fn check_rsa(n: &[u8], e: &[u8]) -> Result<(), KeyError> {
    for (name, number) in [("n", n), ("e", e)] {
        if number.first() == Some(&0) {
            return Err(KeyError::LeadingZero(name));
        }
    }
    let unused = n.first().map_or(0, |first| first.leading_zeros());
    let bits = (n.len() * 8).saturating_sub(usize::try_from(unused).unwrap_or(8));
    if !MODULUS_BITS.contains(&bits) {
        return Err(KeyError::ModulusBits(bits));
    }
    // Only a key that is read from DER is checked by aws-lc.
    let components = RsaPublicKeyComponents { n, e };
    let der: Result<PublicKeyX509Der<'_>, _> = components.as_der();
    let der = der.map_err(|_| KeyError::NoRsaKey)?;
    rsa::PublicKey::from_der(der.as_ref()).map_err(|_| KeyError::NoRsaKey)?;
    Ok(())
}

fn check_point(
    algorithm: &'static dyn VerificationAlgorithm,
    point: &[u8],
    curve: &'static str,
) -> Result<(), KeyError> {
    ParsedPublicKey::new(algorithm, point).map(drop).map_err(|_| KeyError::NoPoint(curve))
}
