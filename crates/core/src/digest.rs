//! Keys of counters. They are keyed digests: secrets, addresses and names of clients are
//! never stored, and a client cannot choose its position in a table.

use std::fmt;
use std::hash::Hasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The client of a request by one key expression: a digest of the values that the
/// expression finds in the request. Only the owner of the [`Secret`] can compute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(u128);

impl Principal {
    /// A principal from its digest. All bits of the digest must be uniformly distributed.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The digest of the principal. It is uniformly distributed, so any of its bits can be
    /// a position in a table.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

/// The id of a principal for people: twelve characters in logs, lists and the admin API. It
/// is the same on all nodes with the same secret, and tells nothing about the client. The
/// digest that places the client's counters cannot be computed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalId(u64);

/// Crockford's base 32 in lower case: no `i`, `l`, `o` and `u`.
const DIGITS: [u8; 32] = *b"0123456789abcdefghjkmnpqrstvwxyz";
/// The digits of an id, with five bits each.
const ID_DIGITS: u32 = 12;

impl From<Principal> for PrincipalId {
    fn from(principal: Principal) -> Self {
        let mut digest = SipHasher13::new();
        digest.write_u128(principal.0);
        Self(std::hash::Hasher::finish(&digest) >> (64 - 5 * ID_DIGITS))
    }
}

impl PrincipalId {
    /// A principal for this id, where the digest itself is not known, as when a log is
    /// replayed.
    pub fn stand_in(self) -> Principal {
        let mut digest = Digest(SipHasher13::new());
        digest.value(&self.0.to_le_bytes());
        Principal(digest.finish())
    }
}

impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in (0..ID_DIGITS).rev() {
            let bits = usize::try_from(self.0 >> (5 * digit) & 31).expect("five bits fit");
            fmt::Write::write_char(f, char::from(DIGITS[bits]))?;
        }
        Ok(())
    }
}

/// The error of a text that is no id of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has 12 characters: digits and lower-case letters without i, l, o and u")]
pub struct PrincipalIdError;

impl std::str::FromStr for PrincipalId {
    type Err = PrincipalIdError;

    fn from_str(text: &str) -> Result<Self, PrincipalIdError> {
        if text.len() != ID_DIGITS as usize {
            return Err(PrincipalIdError);
        }
        text.bytes()
            .try_fold(0, |bits, byte| {
                let digit = DIGITS.iter().position(|digit| *digit == byte)?;
                Some(bits << 5 | u64::try_from(digit).ok()?)
            })
            .map(Self)
            .ok_or(PrincipalIdError)
    }
}

/// One of a principal's counters: a digest of a policy's identity. It is not secret, and
/// it is the same on all nodes with this policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(u64);

impl Counter {
    /// A counter from its number.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The part that distinguishes the counter from the principal's other counters in
    /// Redis. It has three bytes, because every state contains it. The configuration
    /// ensures that no two counters have the same part.
    pub const fn stored(self) -> u32 {
        let [low, middle, high, ..] = self.0.to_le_bytes();
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// The counter with these values.
    pub fn of(add: impl FnOnce(&mut Digest)) -> Self {
        let mut digest = Digest(SipHasher13::new());
        add(&mut digest);
        // The lower half of a digest is uniformly distributed.
        Self(u64::try_from(digest.finish() & u128::from(u64::MAX)).expect("64 bits fit"))
    }
}

/// The key of one counter of one principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The principal.
    pub principal: Principal,
    /// The counter.
    pub counter: Counter,
}

impl Key {
    /// Both in one number. The lower half is the principal's, so all of its counters are
    /// close to each other in a table.
    pub(crate) const fn bits(self) -> u128 {
        self.principal.0 ^ ((self.counter.0 as u128) << 64)
    }
}

/// The key of the digests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl Secret {
    /// A secret that the operator has chosen.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes of the secret, for the store that shares it among the nodes.
    pub const fn expose(&self) -> &[u8; 16] {
        &self.0
    }

    /// A new secret from the system's random numbers, for counters that end with the
    /// process.
    pub fn random() -> Self {
        // The system seeds `RandomState` once per thread, and each new state increments the
        // seed. Hashing with it gives independent bits.
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

/// A secret that can be replaced while it is used. Nodes that share counters read it from
/// the store, which may happen after the start.
#[derive(Default)]
pub struct SharedSecret([AtomicU64; 2]);

impl SharedSecret {
    /// One that begins as this.
    pub fn new(secret: Secret) -> Self {
        let shared = Self::default();
        shared.set(secret);
        shared
    }

    /// Replaces the secret. A key that is computed at the same time may belong to neither
    /// secret; no later request uses its counter.
    pub fn set(&self, Secret(bytes): Secret) {
        for (half, chunk) in self.0.iter().zip(bytes.chunks_exact(8)) {
            let mut value = [0; 8];
            value.copy_from_slice(chunk);
            half.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }

    /// The current secret.
    pub fn get(&self) -> Secret {
        let mut bytes = [0; 16];
        for (half, chunk) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&half.load(Ordering::Relaxed).to_le_bytes());
        }
        Secret(bytes)
    }
}

/// Does not print the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Does not print the secret.
impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}

/// A digest under construction (SipHash-1-3 with 128 bits of output; J.-P. Aumasson and D.
/// J. Bernstein, "SipHash: a fast short-input PRF").
#[derive(Clone, Copy, Debug)]
pub struct Digest(SipHasher13);

impl Digest {
    /// Adds one value together with its length: `("ab", "c")` differs from `("a", "bc")`.
    pub fn value(&mut self, bytes: &[u8]) {
        self.0.write_usize(bytes.len());
        self.0.write(bytes);
    }

    /// Adds a tag that distinguishes kinds of values.
    pub(crate) fn tag(&mut self, tag: u8) {
        self.0.write_u8(tag);
    }

    /// The digest of all added values.
    pub fn finish(&self) -> u128 {
        self.0.finish128().as_u128()
    }
}

/// The hash of a map whose keys are digests: they need no other. Their upper bits are their hash. They must
/// be uniformly distributed, and no client can choose them.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestHasher(u64);

impl std::hash::Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, digest: u128) {
        self.0 = u64::try_from(digest >> 64).expect("64 bits are left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(values: &[&str]) -> u128 {
        let mut digest = Secret::from_bytes([7; 16]).digest();
        for value in values {
            digest.value(value.as_bytes());
        }
        digest.finish()
    }

    #[test]
    fn values_are_kept_apart() {
        assert_eq!(digest(&["ab", "c"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["ab"]), digest(&["ab", ""]));
    }

    #[test]
    fn an_id_is_read_back_and_does_not_show_the_digest() {
        for bits in [0, 1, u128::MAX, 1 << 100] {
            let id = PrincipalId::from(Principal::from_bits(bits));
            let text = id.to_string();
            assert_eq!(text.len(), 12, "{text}");
            assert_eq!(text.parse(), Ok(id));
        }
        let id = |bits| PrincipalId::from(Principal::from_bits(bits)).to_string();
        assert_ne!(id(1), id(2));
        assert_ne!(id(1), id(1 << 64));
        for text in ["", "000000000001x", "00000000000", "00000000000i", "00000000000é"] {
            assert_eq!(text.parse::<PrincipalId>(), Err(PrincipalIdError), "{text}");
        }
    }

    #[test]
    fn another_secret_makes_another_digest() {
        let digest = |secret: Secret| secret.digest().finish();
        assert_ne!(digest(Secret::random()), digest(Secret::random()));
    }

    #[test]
    fn counters_of_a_principal_differ_and_are_close_in_a_table() {
        let key = |principal, counter| Key {
            principal: Principal::from_bits(principal),
            counter: Counter::from_bits(counter),
        };
        assert_ne!(key(1, 1).bits(), key(1, 2).bits());
        assert_ne!(key(1, 1).bits(), key(2, 1).bits());
        let low = |key: Key| key.bits() & u128::from(u64::MAX);
        assert_eq!(low(key(7, 1)), low(key(7, u64::MAX)));
    }

    #[test]
    fn a_shared_secret_has_the_last_value() {
        let digest = |secret: Secret| secret.digest().finish();
        let [early, late] = [1, 2].map(|byte| Secret::from_bytes([byte; 16]));
        let shared = SharedSecret::new(early);
        assert_eq!(digest(shared.get()), digest(early));
        shared.set(late);
        assert_eq!(digest(shared.get()), digest(late));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::from_bytes([42; 16])), "Secret(..)");
        let shared = SharedSecret::new(Secret::from_bytes([42; 16]));
        assert_eq!(format!("{shared:?}"), "SharedSecret(..)");
    }
}
