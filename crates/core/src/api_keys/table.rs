//! Keys that are all known, as those of a file.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::{KeyDigest, KeyEntry, KeyId, KeyRecord, Sought, TeamRecord};

/// All keys of a file. It never changes: a changed file makes another table.
#[derive(Default)]
pub struct KeyTable {
    by_id: HashMap<KeyId, Arc<KeyEntry>, BuildHasherDefault<IdHasher>>,
    by_digest: HashMap<KeyDigest, KeyId>,
}

impl KeyTable {
    /// The table of these keys, whose teams are among `teams` or have only a name. Of several keys
    /// with the same id, the last one counts.
    pub fn new(
        keys: impl IntoIterator<Item = KeyRecord>,
        teams: impl IntoIterator<Item = TeamRecord>,
    ) -> Self {
        let teams: HashMap<Arc<str>, Arc<TeamRecord>> =
            teams.into_iter().map(|team| (Arc::clone(&team.name), Arc::new(team))).collect();
        let mut table = Self::default();
        for key in keys {
            let team = key.team.as_ref().and_then(|name| teams.get(name)).cloned();
            table.by_digest.extend(key.digests.iter().map(|held| (held.digest, key.id)));
            table.by_id.insert(key.id, Arc::new(KeyEntry { key, team }));
        }
        table
    }

    /// The key, if it is in the table.
    pub fn find(&self, sought: &Sought) -> Option<&Arc<KeyEntry>> {
        match sought {
            Sought::Id(id) => self.by_id.get(id),
            Sought::Digest(digest) => self.by_id.get(self.by_digest.get(digest)?),
        }
    }

    /// All keys, in no order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<KeyEntry>> {
        self.by_id.values()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// The hash of an id, as FxHash computes it. No client can add an id to the table, so a cheap hash is
/// enough.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    /// Maps choose a place by the lower bits, and a product is best in its upper ones.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..part.len()].copy_from_slice(part);
            let added = self.0.rotate_left(5) ^ u64::from_le_bytes(word);
            self.0 = added.wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    /// The lengths of ids are equal.
    fn write_usize(&mut self, _: usize) {}
}

/// Prints how many keys there are.
impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyTable({} keys)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// Ids that are random, and ids that differ in few characters.
    #[test]
    fn the_hashes_of_ids_are_spread() {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        let mut random = fastrand::Rng::with_seed(1);
        for is_random in [true, false] {
            let mut lower = vec![0_u32; 4096];
            let mut upper = vec![0_u32; 128];
            for bits in 0..65_536 {
                let id = KeyId::from_bits(if is_random { random.u64(..) } else { bits });
                let hash = hasher.hash_one(id);
                lower[usize::try_from(hash % 4096).unwrap()] += 1;
                upper[usize::try_from(hash >> 57).unwrap()] += 1;
            }
            let most = lower.iter().max().unwrap();
            assert!(*most < 80, "{most} of 65,536 in one of 4,096 places, random: {is_random}");
            let range = upper.iter().min().unwrap()..=upper.iter().max().unwrap();
            assert!(*range.start() > &200 && *range.end() < &1200, "{range:?}, {is_random}");
        }
    }
}
