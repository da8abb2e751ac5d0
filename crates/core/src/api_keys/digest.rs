//! The digest of a key: the only form in which its text is kept.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

const BYTES: usize = 32;

/// The SHA-256 of a key's text. A key has 256 random bits, which cannot be searched, so a slow hash
/// would add nothing.
///
/// Two digests are compared as bytes only to find a record. Whether a text has the digest of a
/// record is for `is`, whose duration does not depend on where they differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest([u8; BYTES]);

/// The error of a text that is not the digest of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the SHA-256 of a key has 64 hexadecimal digits")]
pub struct DigestError;

impl KeyDigest {
    /// A digest by its bytes.
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// The digest of a key.
    #[cfg(feature = "keys")]
    pub fn of(text: &[u8]) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Whether this is the digest `other`, in constant time.
    #[cfg(feature = "keys")]
    pub fn is(&self, other: &Self) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

/// 64 hexadecimal digits, in lower case.
impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Does not print the digest: a weak imported key could be searched with it.
impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(..)")
    }
}

/// 64 hexadecimal digits, in lower or upper case.
impl FromStr for KeyDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digits = text.as_bytes();
        if digits.len() != 2 * BYTES {
            return Err(DigestError);
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// The value of a hexadecimal digit.
fn value(digit: u8) -> Result<u8, DigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(DigestError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_back_and_not_shown() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest: KeyDigest = text.parse().unwrap();
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        assert_eq!(format!("{digest:?}"), "KeyDigest(..)");
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replace('b', "g")] {
            assert_eq!(wrong.parse::<KeyDigest>(), Err(DigestError), "{wrong}");
        }
    }

    #[cfg(feature = "keys")]
    #[test]
    fn the_digest_is_sha_256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(KeyDigest::of(b"abc").to_string(), abc);
        assert!(KeyDigest::of(b"abc").is(&abc.parse().unwrap()));
        assert!(!KeyDigest::of(b"abd").is(&abc.parse().unwrap()));
    }
}
