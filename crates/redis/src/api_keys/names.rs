//! The names of what is stored. All keys of a part are in one slot.

use tollgate_core::api_keys::{KeyDigest, KeyId};

/// The names under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: Box<str>,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The index of a part: a hash of its ids, with the time of their last use. Calls about a part go
    /// where this key is.
    pub(super) fn index(&self, part: usize) -> String {
        let prefix = &self.prefix;
        format!("{prefix}:k:{{{prefix}:k:{part:02}}}")
    }

    /// The record of a key.
    pub(super) fn record(&self, part: usize, id: KeyId) -> String {
        format!("{}:{id}", self.index(part))
    }

    /// The ids of a part in their order: a sorted set in which all have one score.
    pub(super) fn ids(&self, part: usize) -> String {
        format!("{}:ids", self.index(part))
    }

    /// The sign that a part has keys. Without it, the part was emptied or never had any.
    pub(super) fn sign(&self, part: usize) -> String {
        format!("{}:sign", self.index(part))
    }

    /// The id of an imported key by its digest.
    pub(super) fn digest(&self, part: usize, digest: &KeyDigest) -> String {
        format!("{}:sha256:{digest}", self.index(part))
    }

    /// The teams: a hash of their records.
    pub(super) fn teams(&self) -> String {
        format!("{}:k:teams", self.prefix)
    }

    /// The marks of changes: a hash by part.
    pub(super) fn marks(&self) -> String {
        format!("{}:meta:keys", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::slot;

    #[test]
    fn all_keys_of_a_part_are_in_one_slot() {
        for prefix in ["rl", "{a}", "x{y}z"] {
            let names = Names::new(prefix);
            let digest = KeyDigest::from_bytes([7; 32]);
            let index = names.index(7);
            let record = names.record(7, KeyId::from_bits(1));
            let others = [record, names.ids(7), names.sign(7), names.digest(7, &digest)];
            assert!(others.iter().all(|it| slot(it.as_bytes()) == slot(index.as_bytes())));
        }
        assert_eq!(Names::new("rl").index(7), "rl:k:{rl:k:07}");
    }
}
