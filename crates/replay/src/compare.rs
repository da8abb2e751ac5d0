//! Two configurations on the same requests: which requests fare differently.

use std::net::IpAddr;

use tollgate_core::time::{Span, Timestamp};

use super::keys::KeySet;
use super::refused::{ClientName, Refusals, digest_of_address};
use super::trial::Fate;

/// Which requests fare differently under another configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// Requests that only the new one refuses, and their clients.
    pub(super) newly_refused: u64,
    pub(super) clients_lost: KeySet,
    pub(super) lost: Refusals,
    /// Requests that only the old one refuses, and their clients.
    pub(super) newly_admitted: u64,
    pub(super) clients_gained: KeySet,
}

impl Comparison {
    /// Counts what becomes of a request under both.
    pub(super) fn add(&mut self, new: Fate, old: Fate, client: IpAddr, now: Timestamp) {
        match (new, old) {
            (Fate::Refused, Fate::Admitted) => {
                self.newly_refused += 1;
                let digest = digest_of_address(client);
                let name = ClientName::Address(client);
                self.clients_lost.add(digest);
                self.lost.add(digest, name, now, Span::ZERO);
            }
            (Fate::Admitted, Fate::Refused) => {
                self.newly_admitted += 1;
                self.clients_gained.add(digest_of_address(client));
            }
            _ => {}
        }
    }
}
