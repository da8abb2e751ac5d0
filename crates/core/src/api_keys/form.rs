//! The form of a key: `PREFIX_ID_SECRET`, as in `acme_7f2m9qd0v3xk_...`.
//!
//! The secret is 43 digits of base 62, for 256 random bits, and six digits with the CRC-32 of all
//! before them. So a mistyped or invented key costs no lookup. Programs that search files for
//! secrets find keys with the expression `PREFIX_[0-9a-hjkmnp-tv-z]{12}_[0-9A-Za-z]{49}`.

use std::sync::Arc;

use thiserror::Error;

use super::id::{ID_CHARS, KeyId};
use crate::crc::crc32;

/// The usual prefix.
pub const PREFIX: &str = "tg";
/// The most characters of a prefix.
const MAX_PREFIX: usize = 16;
/// The digits of base 62.
pub(super) const DIGITS: [u8; 62] =
    *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The digits with random bits.
pub(super) const RANDOM_CHARS: usize = 43;
/// The digits of the checksum.
const CRC_CHARS: usize = 6;
/// The characters of a key after its prefix.
pub const TEXT_TAIL: usize = 1 + ID_CHARS + 1 + RANDOM_CHARS + CRC_CHARS;

/// The form of the keys with one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyForm {
    prefix: Arc<str>,
}

/// The error of a text that cannot be the prefix of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a prefix of keys has 1 to 16 characters: letters, digits and _; it begins with a letter and does not end with _"
)]
pub struct PrefixError;

/// Why a text is not a key of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormError {
    /// It does not begin with the prefix and `_`. It may be something else, such as a JWT.
    #[error("the text does not begin with the prefix of keys")]
    Other,
    /// It begins like a key, and has another length or other characters.
    #[error("the text begins like a key, and has another form")]
    Malformed,
    /// It has the form of a key, and another checksum.
    #[error("the checksum of the key is wrong")]
    Checksum,
}

impl Default for KeyForm {
    fn default() -> Self {
        Self { prefix: PREFIX.into() }
    }
}

impl KeyForm {
    /// The form of the keys with this prefix.
    ///
    /// # Errors
    /// If no keys can have it.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        let is_good = |char: u8| char.is_ascii_alphanumeric() || char == b'_';
        let holds = (1..=MAX_PREFIX).contains(&prefix.len())
            && prefix.bytes().all(is_good)
            && prefix.starts_with(|first: char| first.is_ascii_alphabetic())
            && !prefix.ends_with('_');
        if holds { Ok(Self { prefix: prefix.into() }) } else { Err(PrefixError) }
    }

    /// The prefix.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The id in the text of a key. Whether there is such a key, and whether this is its secret, is
    /// not known thereby.
    ///
    /// # Errors
    /// If the text does not have this form.
    pub fn parse(&self, text: &[u8]) -> Result<KeyId, FormError> {
        let tail = text.strip_prefix(self.prefix.as_bytes()).ok_or(FormError::Other)?;
        let body = tail.strip_prefix(b"_").ok_or(FormError::Other)?;
        if tail.len() != TEXT_TAIL {
            return Err(FormError::Malformed);
        }
        let (id, secret) = body.split_at(ID_CHARS);
        let id = KeyId::of(id).ok_or(FormError::Malformed)?;
        let digits = secret.strip_prefix(b"_").ok_or(FormError::Malformed)?;
        if !digits.iter().all(u8::is_ascii_alphanumeric) {
            return Err(FormError::Malformed);
        }
        let (checked, crc) = text.split_at(text.len() - CRC_CHARS);
        if crc == checksum(checked) { Ok(id) } else { Err(FormError::Checksum) }
    }

    /// Whether a text begins like a key of this form.
    pub fn begins(&self, text: &[u8]) -> bool {
        text.strip_prefix(self.prefix.as_bytes()).is_some_and(|tail| tail.starts_with(b"_"))
    }

    /// The text of a key with this id and these 43 random digits.
    #[cfg(feature = "keys")]
    pub(super) fn text(&self, id: KeyId, random: &[u8; RANDOM_CHARS]) -> String {
        let random = std::str::from_utf8(random).expect("digits are ASCII");
        let mut text = format!("{}_{id}_{random}", self.prefix);
        let crc = checksum(text.as_bytes());
        text.push_str(std::str::from_utf8(&crc).expect("digits are ASCII"));
        text
    }
}

/// The digits of the checksum of the characters before them.
fn checksum(checked: &[u8]) -> [u8; CRC_CHARS] {
    let mut rest = crc32(checked);
    let mut digits = [0; CRC_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_word() {
        for good in ["tg", "acme", "sk_live", "A1", "sixteen_letters1"] {
            assert_eq!(KeyForm::new(good).map(|form| form.prefix().to_owned()), Ok(good.into()));
        }
        for bad in ["", "_", "1a", "a_", "a-b", "a b", "é", "seventeen_letters"] {
            assert_eq!(KeyForm::new(bad), Err(PrefixError), "{bad}");
        }
    }
}
