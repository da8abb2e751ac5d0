//! Hashing of keys that are digests.

use std::hash::Hasher;

/// Digests need no hashing: their upper bits are their hash. They must be uniformly
/// distributed, and no client can choose them.
#[derive(Debug, Default)]
pub struct DigestHasher(u64);

impl Hasher for DigestHasher {
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
