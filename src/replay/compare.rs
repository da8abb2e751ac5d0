//! Two configurations on the same requests: which requests fare differently.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;

use super::keys::KeySet;
use super::trial::Fate;

/// Which requests fare differently under another configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// Requests that only the new one refuses, and their clients.
    pub(super) newly_refused: u64,
    pub(super) clients_lost: KeySet,
    /// Requests that only the old one refuses, and their clients.
    pub(super) newly_admitted: u64,
    pub(super) clients_gained: KeySet,
}

impl Comparison {
    /// Counts what becomes of a request under both.
    pub(super) fn add(&mut self, new: Fate, old: Fate, client: IpAddr) {
        let digest = || BuildHasherDefault::<DefaultHasher>::default().hash_one(client);
        match (new, old) {
            (Fate::Refused, Fate::Admitted) => {
                self.newly_refused += 1;
                self.clients_lost.add(digest());
            }
            (Fate::Admitted, Fate::Refused) => {
                self.newly_admitted += 1;
                self.clients_gained.add(digest());
            }
            _ => {}
        }
    }
}
