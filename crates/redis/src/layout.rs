//! The layout of a principal's states in Redis.
//!
//! All states of a principal are one field of a hash, the bucket, which it shares with about
//! [`CLIENTS_PER_BUCKET`] others. Redis stores a hash with so few fields as one piece of
//! memory: a client takes about as many bytes as are written, while a key of its own would
//! take a hundred more. One field is on one server and changes in one step.
//!
//! Bucket and field are bits of the principal's digest, which cannot be computed without the
//! secret. So no key reveals a client, and no client can choose its bucket.

use bytes::Bytes;

use tollgate_core::digest::Principal;

/// The number of clients in a bucket if there are as many as expected. A bucket with eight
/// times as many still has the compact form of a hash, which has up to 512 fields
/// (`hash-max-listpack-entries`).
pub const CLIENTS_PER_BUCKET: u64 = 64;
/// The minimum number of buckets, so that a small deployment can grow.
const MIN_BUCKETS: u64 = 1 << 4;
/// The maximum number of buckets, which is enough for 64 times 2^32 clients.
const MAX_BUCKETS: u64 = 1 << 32;
/// The maximum length of a bucket's number in base 36.
const MAX_DIGITS: usize = 7;
/// The length of a field in bytes. With a bucket of 2^14 fields, the probability that two of 100
/// million clients have the same field is 1 in 200,000.
const FIELD_BYTES: usize = 7;

/// The field that holds the states of one principal.
pub type Field = [u8; FIELD_BYTES];

/// The layout of principals under one prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    prefix: Box<str>,
    buckets: u64,
}

impl Layout {
    /// The layout for this number of clients. All nodes must have the same layout, because
    /// otherwise they look for a client in different buckets. So Redis stores the number of
    /// buckets.
    pub fn new(prefix: &str, expected_clients: u64) -> Self {
        let buckets = expected_clients.div_ceil(CLIENTS_PER_BUCKET).min(MAX_BUCKETS);
        Self::with_buckets(prefix, buckets)
    }

    /// The layout with this number of buckets, which another node has chosen. It is rounded up
    /// to a power of two.
    pub fn with_buckets(prefix: &str, buckets: u64) -> Self {
        let buckets = buckets.clamp(MIN_BUCKETS, MAX_BUCKETS).next_power_of_two();
        Self { prefix: prefix.into(), buckets }
    }

    /// The number of buckets: a power of two from 2^4 to 2^32.
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The key of a principal's bucket: the prefix and a number in base 36.
    pub fn key(&self, principal: Principal) -> Bytes {
        let mut digits = [0; MAX_DIGITS];
        [self.prefix.as_bytes(), b":", self.bucket(principal, &mut digits)].concat().into()
    }

    /// The key of a principal's long logs. It begins with the prefix and has the bucket's key
    /// in braces, so that both are in one slot of a cluster.
    pub fn key_of_long_logs(&self, principal: Principal) -> Bytes {
        let prefix = self.prefix.as_bytes();
        let mut digits = [0; MAX_DIGITS];
        let bucket = self.bucket(principal, &mut digits);
        [prefix, b":{", prefix, b":", bucket, b"}", &Self::field(principal)].concat().into()
    }

    /// The number of a principal's bucket, in base 36.
    fn bucket<'d>(&self, principal: Principal, digits: &'d mut [u8; MAX_DIGITS]) -> &'d [u8] {
        let mut number = principal.bits() & u128::from(self.buckets - 1);
        let mut first = digits.len();
        loop {
            first -= 1;
            let digit = u32::try_from(number % 36).expect("a digit is less than 36");
            let digit = char::from_digit(digit, 36).expect("a digit is less than 36");
            digits[first] = u8::try_from(digit).expect("digits are ASCII");
            number /= 36;
            if number == 0 {
                break;
            }
        }
        &digits[first..]
    }

    /// The field in that bucket. Its bits are not used for the bucket.
    pub fn field(principal: Principal) -> Field {
        let bytes = principal.bits().to_be_bytes();
        *bytes.first_chunk().expect("a digest has 16 bytes")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slots::slot;

    #[test]
    fn there_is_a_bucket_for_every_64_expected_clients() {
        let buckets = |clients| Layout::new("rl", clients).buckets();
        assert_eq!(buckets(1_000_000), 1 << 14);
        assert_eq!(buckets(64 << 14), 1 << 14);
        assert_eq!(buckets((64 << 14) + 1), 1 << 15);
        assert_eq!((buckets(0), buckets(u64::MAX)), (1 << 4, 1 << 32));
    }

    #[test]
    fn another_node_finds_the_same_layout_by_the_number_of_buckets() {
        let first = Layout::new("rl", 5_000_000);
        let second = Layout::with_buckets("rl", first.buckets());
        let principal = Principal::from_bits(0x1234_5678_9abc_def0_1122_3344_5566_7788);
        assert_eq!(first.key(principal), second.key(principal));
        assert_eq!(Layout::with_buckets("rl", 1000).buckets(), 1024);
    }

    #[test]
    fn a_key_is_the_prefix_and_a_number_of_base_36() {
        let layout = Layout::with_buckets("rl", 1 << 16);
        let key = |bits| layout.key(Principal::from_bits(bits));
        assert_eq!(
            (key(0), key(35), key(36 * 36)),
            ("rl:0".into(), "rl:z".into(), "rl:100".into())
        );
    }

    #[test]
    fn the_key_of_long_logs_lies_in_the_slot_of_the_bucket() {
        let layout = Layout::with_buckets("rl", 1 << 16);
        let principal = Principal::from_bits((u128::from(u64::MAX) << 64) + 35);
        let key = layout.key_of_long_logs(principal);
        assert_eq!(key, &b"rl:{rl:z}\xff\xff\xff\xff\xff\xff\xff"[..]);
        assert_eq!(slot(&key), slot(&layout.key(principal)));
    }

    proptest! {
        #[test]
        fn bucket_and_field_depend_on_different_bits(
            bits in any::<u128>(),
            at in 0..128_u32,
            buckets in any::<u64>(),
        ) {
            let layout = Layout::with_buckets("rl", buckets);
            let here = Principal::from_bits(bits);
            let there = Principal::from_bits(bits ^ 1 << at);
            let other_bucket = layout.key(here) != layout.key(there);
            let other_field = Layout::field(here) != Layout::field(there);
            prop_assert_eq!(other_bucket, 1 << at < u128::from(layout.buckets()));
            prop_assert_eq!(other_field, at >= 72);
        }
    }
}
