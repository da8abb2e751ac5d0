//! JSON Web Key Sets (RFC 7517, section 5), in files and from issuers.
//!
//! A member that is meant for the algorithms and cannot be used is left out, and the caller
//! says so: a mistake of an issuer in one key must not end the validity of its other keys.
//! Members for other purposes are ignored, as the RFC advises.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::algorithm::{KeyKind, algorithm_named};
use super::key_error::{KeyError, LeftOut};
use super::keys::check_algorithms;
use crate::policy::VerifyingKey;

/// The most keys of a set: a token that names no key is tried with all of them.
const MAX_KEYS: usize = 32;
/// The most members that are reported one by one.
const MAX_REPORTED: usize = 8;
/// The most characters of the name of a key that messages show.
const MAX_SHOWN: usize = 64;

/// The usable part of a key set.
#[derive(Debug)]
pub struct UsableKeys {
    /// At least one.
    pub keys: Vec<VerifyingKey>,
    /// The first members that are meant for the algorithms and cannot be used.
    pub left_out: Vec<LeftOut>,
    /// The number of members that are not used, for whatever reason.
    pub passed_over: usize,
}

/// A set whose members have not been read yet.
#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// A JSON Web Key (RFC 7518, section 6, and RFC 8037, section 2).
#[derive(Deserialize)]
struct Member {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

impl UsableKeys {
    /// The keys of a set that verify signatures by one of the algorithms.
    ///
    /// # Errors
    /// If the bytes are not a key set, or it has no such key, or more than 32.
    pub fn read(bytes: &[u8], algorithms: &[Algorithm]) -> Result<Self, KeyError> {
        check_algorithms(algorithms)?;
        let Set { keys: members } = serde_json::from_slice(bytes)?;
        let count = members.len();
        let mut keys = Vec::new();
        let mut left_out = Vec::new();
        for (index, member) in members.into_iter().enumerate() {
            let name = name_of(&member, index);
            let member = serde_json::from_value(member).map_err(|_| KeyError::Member);
            match member.and_then(|member: Member| member.key_for(algorithms)) {
                Ok(key) => keys.extend(key),
                Err(error) if left_out.len() < MAX_REPORTED => {
                    left_out.push(LeftOut { name, error });
                }
                Err(_) => {}
            }
        }
        match keys.len() {
            0 => Err(KeyError::NoKey {
                algorithms: algorithms.into(),
                left_out: left_out.into_iter().next().map(Box::new),
            }),
            used @ 1..=MAX_KEYS => Ok(Self { keys, left_out, passed_over: count - used }),
            _ => Err(KeyError::TooManyKeys(MAX_KEYS)),
        }
    }
}

/// What messages call a member.
fn name_of(member: &Value, index: usize) -> String {
    let Some(kid) = member.get("kid").and_then(Value::as_str) else {
        return format!("number {}", index + 1);
    };
    format!("{:?}", kid.chars().take(MAX_SHOWN).collect::<String>())
}

impl Member {
    /// The key, if it is meant for one of the algorithms.
    fn key_for(&self, algorithms: &[Algorithm]) -> Result<Option<VerifyingKey>, KeyError> {
        let Some(kind) = self.kind()? else { return Ok(None) };
        if self.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return Ok(None);
        }
        let is_meant = |algorithm: &Algorithm| {
            let said = self.alg.as_deref();
            kind.algorithms().contains(algorithm)
                && said.is_none_or(|name| algorithm_named(name) == Some(*algorithm))
        };
        let meant: Vec<_> = algorithms.iter().copied().filter(is_meant).collect();
        if meant.is_empty() {
            return Ok(None);
        }
        VerifyingKey::new(self.kid.clone(), kind, self.key(kind)?, &meant).map(Some)
    }

    /// None if the kind is not supported.
    fn kind(&self) -> Result<Option<KeyKind>, KeyError> {
        Ok(match (&*self.kty, self.crv.as_deref()) {
            ("oct", _) => Some(KeyKind::Secret),
            ("RSA", _) => Some(KeyKind::Rsa),
            ("EC", Some("P-256")) => Some(KeyKind::P256),
            ("EC", Some("P-384")) => Some(KeyKind::P384),
            ("OKP", Some("Ed25519")) => Some(KeyKind::Ed25519),
            ("EC" | "OKP", None) => return Err(KeyError::Parameter("crv")),
            _ => None,
        })
    }

    fn key(&self, kind: KeyKind) -> Result<DecodingKey, KeyError> {
        let Self { n, e, x, y, k, .. } = self;
        let point = |bytes| -> Result<_, KeyError> {
            let x = coordinate("x", x, bytes)?;
            let y = coordinate("y", y, bytes)?;
            // The tag of a point with both coordinates (SEC 1, section 2.3.3).
            Ok(DecodingKey::from_ec_der(&[vec![4], x, y].concat()))
        };
        match kind {
            KeyKind::Secret => Ok(DecodingKey::from_secret(&octets("k", k)?)),
            KeyKind::Rsa => {
                Ok(DecodingKey::from_rsa_raw_components(&octets("n", n)?, &octets("e", e)?))
            }
            KeyKind::P256 => point(32),
            KeyKind::P384 => point(48),
            KeyKind::Ed25519 => Ok(DecodingKey::from_ed_der(&coordinate("x", x, 32)?)),
        }
    }
}

fn octets(name: &'static str, text: &Option<String>) -> Result<Vec<u8>, KeyError> {
    let bytes = text.as_deref().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    bytes.filter(|bytes| !bytes.is_empty()).ok_or(KeyError::Parameter(name))
}

fn coordinate(
    name: &'static str,
    text: &Option<String>,
    needed: usize,
) -> Result<Vec<u8>, KeyError> {
    let bytes = octets(name, text)?;
    match bytes.len() {
        length if length == needed => Ok(bytes),
        bytes => Err(KeyError::Coordinate { name, bytes, needed }),
    }
}

#[cfg(test)]
mod tests;
