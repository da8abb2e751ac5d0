//! The id of a key: twelve characters, which are not secret.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The characters of an id: digits and lower-case letters without `i`, `l`, `o` and `u`.
pub(super) const ID_DIGITS: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of characters.
pub(super) const ID_CHARS: usize = 12;

/// The id of a key. Logs, metrics and calls name a key by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID_CHARS]);

/// The error of a text that is not the id of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the id of a key has 12 characters: digits and lower-case letters without i, l, o and u")]
pub struct KeyIdError;

impl KeyId {
    /// The id that these bits choose, five for each character. The upper four are not used.
    pub const fn from_bits(bits: u64) -> Self {
        let mut chars = [0; ID_CHARS];
        let mut at = 0;
        while at < ID_CHARS {
            chars[at] = ID_DIGITS[(bits >> (5 * at) & 31) as usize];
            at += 1;
        }
        Self(chars)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("an id is ASCII")
    }

    /// The id as bytes of ASCII.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id that `bytes` are, if they are one.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let chars = <[u8; ID_CHARS]>::try_from(bytes).ok()?;
        chars.iter().all(|char| is_id_digit(*char)).then_some(Self(chars))
    }
}

/// Whether ids may have this character.
const fn is_id_digit(char: u8) -> bool {
    matches!(char, b'0'..=b'9' | b'a'..=b'z') && !matches!(char, b'i' | b'l' | b'o' | b'u')
}

impl FromStr for KeyId {
    type Err = KeyIdError;

    fn from_str(text: &str) -> Result<Self, KeyIdError> {
        Self::of(text.as_bytes()).ok_or(KeyIdError)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back() {
        for bits in [0, 1, u64::MAX, 1 << 59, 0x0123_4567_89ab_cdef] {
            let id = KeyId::from_bits(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_ne!(KeyId::from_bits(1), KeyId::from_bits(1 << 59));
        assert!(ID_DIGITS.iter().all(|digit| is_id_digit(*digit)));
        assert_eq!((0..=u8::MAX).filter(|byte| is_id_digit(*byte)).count(), ID_DIGITS.len());
    }

    #[test]
    fn other_texts_are_not_ids() {
        for text in
            ["", "7f2m9qd0v3x", "7f2m9qd0v3xkk", "7F2m9qd0v3xk", "7f2m9qd0v3xi", "7f2m9qd0v3é"]
        {
            assert_eq!(text.parse::<KeyId>(), Err(KeyIdError), "{text}");
        }
    }
}
