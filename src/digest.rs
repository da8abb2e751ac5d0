//! Keys of counters: keyed digests, so that no client's secret, address or name
//! is ever stored, and no client can aim at another's place in a table.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// What one counter is filed under: 128 bits that only the [`Secret`]'s owner
/// can compute from a policy's identity and the values of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 16]);

impl Key {
    /// A key from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes; uniformly distributed, so any of them can place it in a table.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// An empty digest under this key, for keys of other counters of the same
    /// client: nobody who does not know this key can compute them.
    pub fn digest(&self) -> Digest {
        Digest(SipHasher13::new_with_key(&self.0))
    }
}

/// The key of the digests.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// A secret given by its owner.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A new secret from the system's random numbers, for counters that die with the process.
    pub fn random() -> Self {
        // `RandomState` is seeded by the system once a thread and counts up
        // from there; hashing with it whitens the count.
        use std::hash::{BuildHasher as _, RandomState};
        let mut bytes = [0; 16];
        for (half, chunk) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&RandomState::new().hash_one(half).to_le_bytes());
        }
        Self(bytes)
    }

    /// An empty digest.
    pub fn digest(&self) -> Digest {
        Digest(SipHasher13::new_with_key(&self.0))
    }
}

/// Never the secret itself.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A digest under way (SipHash-1-3 with 128 bits out; J.-P. Aumasson and D. J.
/// Bernstein, "SipHash: a fast short-input PRF").
#[derive(Clone, Copy, Debug)]
pub struct Digest(SipHasher13);

impl Digest {
    /// Adds one value, whatever its length: `("ab", "c")` differs from `("a", "bc")`.
    pub fn value(&mut self, bytes: &[u8]) {
        self.0.write_usize(bytes.len());
        self.0.write(bytes);
    }

    /// Adds a tag, to tell kinds of values apart.
    pub fn tag(&mut self, tag: u8) {
        self.0.write_u8(tag);
    }

    /// The key of everything added.
    pub fn finish(&self) -> Key {
        Key(self.0.finish128().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[&str]) -> Key {
        let mut digest = Secret::from_bytes([7; 16]).digest();
        for value in values {
            digest.value(value.as_bytes());
        }
        digest.finish()
    }

    #[test]
    fn values_are_kept_apart() {
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["ab"]), key(&["ab", ""]));
    }

    #[test]
    fn another_secret_makes_another_key() {
        let digest = |secret: Secret| secret.digest().finish();
        assert_ne!(digest(Secret::random()), digest(Secret::random()));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::from_bytes([42; 16])), "Secret(..)");
    }
}
