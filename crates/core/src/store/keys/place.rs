//! The part of each key, digest and team. All nodes and all versions compute the same.

#[cfg(feature = "keys")]
use crate::api_keys::Sought;
use crate::api_keys::{KeyDigest, KeyId};
use crate::store::overrides::PARTS;

/// The part of the key with this id.
pub fn part_of_id(id: KeyId) -> usize {
    part_of(id.as_bytes())
}

/// The part of the entry that leads from a digest to an id.
pub fn part_of_digest(digest: &KeyDigest) -> usize {
    part_of(digest.as_bytes())
}

/// The part of a team.
pub fn part_of_team(name: &str) -> usize {
    part_of(name.as_bytes())
}

/// The part of what is looked up.
#[cfg(feature = "keys")]
pub(super) fn part_of_sought(sought: &Sought) -> usize {
    match sought {
        Sought::Id(id) => part_of_id(*id),
        Sought::Digest(digest) => part_of_digest(digest),
    }
}

/// FNV-1a of 32 bits, of which the upper half is folded into the lower one.
fn part_of(bytes: &[u8]) -> usize {
    let hash = bytes
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let folded = usize::try_from(hash >> 16 ^ hash & 0xffff).expect("it has 16 bits");
    folded % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form depends on it, so it must never change.
    #[test]
    fn the_part_of_an_id_does_not_change() {
        let part = |id: &str| part_of_id(id.parse().unwrap());
        assert_eq!(["000000000000", "7f2m9qd0v3xk", "zzzzzzzzzzzz"].map(part), EXPECTED);
    }

    const EXPECTED: [usize; 3] = [45, 41, 46];

    #[test]
    fn ids_are_spread_over_all_parts() {
        let mut counts = [0; PARTS];
        for number in 0..6400_u64 {
            // Ids of a program that counts, and not only random ones.
            counts[part_of_id(KeyId::from_bits(number))] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }
}
