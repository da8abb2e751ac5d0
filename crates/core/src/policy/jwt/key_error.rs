//! Why a key cannot verify tokens.

use jsonwebtoken::Algorithm;

use super::algorithm::{KeyKind, min_secret};
use crate::pem::PemError;

/// The errors of keys that cannot verify tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No algorithm was given.
    #[error("tokens need at least one algorithm, such as RS256")]
    NoAlgorithm,
    /// None of the allowed algorithms uses this key.
    #[error("this is {kind}, which none of the algorithms {allowed:?} uses")]
    OtherAlgorithm {
        /// The kind of the key.
        kind: KeyKind,
        /// The algorithms of the configuration.
        allowed: Vec<Algorithm>,
    },
    /// A secret that is shorter than an algorithm requires (RFC 7518, section 3.2).
    #[error("a secret for {algorithm:?} has at least {} bytes, this one has {bytes}", min_secret(*.algorithm))]
    ShortSecret {
        /// The algorithm.
        algorithm: Algorithm,
        /// The length of the secret, in bytes.
        bytes: usize,
    },
    /// A modulus that is too short or too long (RFC 7518, section 3.3).
    #[error("an RSA key for tokens has 2048 to 8192 bits, this one has {0}")]
    ModulusBits(usize),
    /// A number in a JSON Web Key that begins with a zero byte (RFC 7518, section 6.3.1.1).
    #[error("its \"{0}\" begins with a zero byte; the number must be encoded without it")]
    LeadingZero(&'static str),
    /// Numbers that are not an RSA key.
    #[error(
        "this is not an RSA key: its modulus is even, or its exponent is even, is 1 or has more \
         than 33 bits"
    )]
    NoRsaKey,
    /// Bytes that are not a point of the curve.
    #[error("the point of this key is not on the curve {0}")]
    NoPoint(&'static str),
    /// A private key instead of a public one.
    #[error("this is a private key: the gateway needs the public one only")]
    Private,
    /// Not a public key in PEM.
    #[error("this is not a public key in PEM form (`BEGIN PUBLIC KEY`): {0}")]
    Pem(#[from] PemError),
    /// Neither an RSA key, nor one of a curve that is supported.
    #[error("this is not a public key for RSA, P-256, P-384 or Ed25519")]
    Kind,
    /// An elliptic curve that is not supported.
    #[error(
        "ES256 needs a key of the curve P-256, and ES384 one of P-384; this is one of another \
         curve"
    )]
    Curve,
    /// Not a JSON Web Key Set.
    #[error("this is not a JSON Web Key Set: {0}")]
    Jwks(#[from] serde_json::Error),
    /// A set without a usable key.
    #[error(
        "the key set has no key for the algorithms {algorithms:?}{}",
        left_out.as_ref().map_or_else(String::new, |it| format!("; {it}"))
    )]
    NoKey {
        /// The algorithms of the configuration.
        algorithms: Vec<Algorithm>,
        /// The first key that is meant for them and cannot be used.
        left_out: Option<Box<LeftOut>>,
    },
    /// A member of a set that is not a JSON Web Key.
    #[error("it is not a JSON Web Key, which is a map of texts with a \"kty\"")]
    Member,
    /// A parameter of a JSON Web Key that is missing or malformed.
    #[error("its \"{0}\" is missing, or is not in base64url without padding")]
    Parameter(&'static str),
    /// A coordinate of a JSON Web Key that has not the full length (RFC 7518, section 6.2.1.2).
    #[error("its \"{name}\" has {bytes} bytes instead of {needed}")]
    Coordinate {
        /// The name of the parameter.
        name: &'static str,
        /// Its length, in bytes.
        bytes: usize,
        /// The length of a coordinate of this curve, in bytes.
        needed: usize,
    },
    /// A set of more usable keys than this.
    #[error("the key set has more than {0} keys for signatures")]
    TooManyKeys(usize),
}

/// A member of a key set that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the key {name} of the set is left out: {error}")]
pub struct LeftOut {
    /// Its `kid` in quotation marks, or its number.
    pub name: String,
    /// Why.
    pub error: KeyError,
}
