//! The algorithms of tokens (RFC 7518, section 3.1): their names, and the keys that they use.

use std::fmt;

use jsonwebtoken::Algorithm;

/// The algorithm of this name. `Ed25519` (RFC 9864, section 2.2) is another name of `EdDSA`
/// (RFC 8037), because no other curve is supported.
pub(super) fn algorithm_named(name: &str) -> Option<Algorithm> {
    match name {
        "Ed25519" => Some(Algorithm::EdDSA),
        other => other.parse().ok(),
    }
}

/// The length of the hash of an HMAC, in bytes: the shortest secret that it may be used with
/// (RFC 7518, section 3.2).
pub(super) const fn min_secret(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => 32,
    }
}

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A shared secret.
    Secret,
    /// RSA.
    Rsa,
    /// The curve P-256.
    P256,
    /// The curve P-384.
    P384,
    /// The curve Ed25519.
    Ed25519,
}

impl KeyKind {
    /// The algorithms that use such a key. A key is never used with another one, so that a
    /// public key is never used as a secret (RFC 8725, section 2.1).
    pub(super) const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
        };
        match self {
            Self::Secret => &[HS256, HS384, HS512],
            Self::Rsa => &[RS256, RS384, RS512, PS256, PS384, PS512],
            Self::P256 => &[ES256],
            Self::P384 => &[ES384],
            Self::Ed25519 => &[EdDSA],
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "a secret",
            Self::Rsa => "an RSA key",
            Self::P256 => "a key of the curve P-256",
            Self::P384 => "a key of the curve P-384",
            Self::Ed25519 => "a key of the curve Ed25519",
        })
    }
}
