//! The text of a bcrypt hash, as `htpasswd -B` writes it.

use std::fmt;
use std::ops::RangeInclusive;

/// The costs of hashes that are accepted. A check takes about 2 ms with the cost 5, and twice as
/// long with each further step.
pub const COSTS: RangeInclusive<u8> = 5..=14;

/// The bytes of a hash.
const BYTES: usize = 60;
/// Where the salt begins: after the version and the cost.
const HEAD: usize = 7;
/// The characters of the salt.
const SALT: usize = 22;
/// The salt and the digest of a hash that no password is known for.
const STAND_IN: &[u8; BYTES - HEAD] = b"abcdefghijklmnopqrstuu0123456789ABCDEFGHIJKLMNOPQRSTe";

/// A bcrypt hash: the version, the cost, the salt and the digest. All of its 60 bytes are ASCII.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BcryptHash([u8; BYTES]);

/// Why a text is not a hash that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFault {
    /// It is the hash of another algorithm, which this text names.
    Other(&'static str),
    /// It is not a hash.
    NoHash,
    /// It begins like a bcrypt hash, and goes on in another way.
    Malformed,
    /// Its cost is none of [`COSTS`].
    Cost(u8),
}

impl BcryptHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// If the text is not a bcrypt hash, or has another cost.
    pub fn parse(text: &str) -> Result<Self, HashFault> {
        let version = text.get(..4);
        if !matches!(version, Some("$2a$" | "$2b$" | "$2y$")) {
            return Err(other_algorithm(text));
        }
        let bytes: [u8; BYTES] = text.as_bytes().try_into().map_err(|_| HashFault::Malformed)?;
        let cost = match [bytes[4], bytes[5]] {
            [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => (tens - b'0') * 10 + (ones - b'0'),
            _ => return Err(HashFault::Malformed),
        };
        let (salt, digest) = bytes[HEAD..].split_at(SALT);
        // The last characters have bits that belong to no byte.
        let is_whole = bytes[6] == b'$' && is_text(salt, 0b1111) && is_text(digest, 0b11);
        match is_whole {
            true if COSTS.contains(&cost) => Ok(Self(bytes)),
            true => Err(HashFault::Cost(cost)),
            false => Err(HashFault::Malformed),
        }
    }

    /// A hash of this cost for which no password is known.
    pub fn stand_in(cost: u8) -> Self {
        let mut bytes = [0; BYTES];
        let (head, rest) = bytes.split_at_mut(HEAD);
        head.copy_from_slice(&[b'$', b'2', b'b', b'$', b'0' + cost / 10, b'0' + cost % 10, b'$']);
        rest.copy_from_slice(STAND_IN);
        Self(bytes)
    }

    /// The binary logarithm of the number of rounds.
    pub const fn cost(&self) -> u8 {
        (self.0[4] - b'0') * 10 + (self.0[5] - b'0')
    }

    /// The text.
    pub const fn as_str(&self) -> &str {
        match std::str::from_utf8(&self.0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

/// Does not print the hash: weak passwords could be searched with it.
impl fmt::Debug for BcryptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BcryptHash(..)")
    }
}

/// Whether all characters are digits of bcrypt, and the last one has none of the bits `unused`.
fn is_text(text: &[u8], unused: u8) -> bool {
    text.iter().all(|byte| value(*byte).is_some())
        && text.last().and_then(|last| value(*last)).is_some_and(|last| last & unused == 0)
}

/// The six bits of a character in the alphabet of bcrypt, which is not that of RFC 4648.
const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'.' => Some(0),
        b'/' => Some(1),
        b'A'..=b'Z' => Some(digit - b'A' + 2),
        b'a'..=b'z' => Some(digit - b'a' + 28),
        b'0'..=b'9' => Some(digit - b'0' + 54),
        _ => None,
    }
}

/// What a text is that is not a bcrypt hash.
fn other_algorithm(text: &str) -> HashFault {
    let known = [
        ("$apr1$", "MD5, as htpasswd -m writes it"),
        ("$1$", "MD5"),
        ("{SHA}", "SHA-1"),
        ("{SSHA}", "SHA-1"),
        ("$5$", "SHA-256"),
        ("$6$", "SHA-512"),
        ("$y$", "yescrypt"),
        ("$7$", "scrypt"),
        ("$scrypt$", "scrypt"),
        ("$argon2", "Argon2"),
        ("$pbkdf2", "PBKDF2"),
        ("$2x$", "a version of bcrypt with a defect"),
        ("$2$", "the first version of bcrypt"),
    ];
    let named = known.iter().find(|(start, _)| text.starts_with(start));
    named.map_or(HashFault::NoHash, |(_, name)| HashFault::Other(name))
}
