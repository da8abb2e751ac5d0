//! Selects the server of a key from several independent servers: the server whose digest
//! together with the key is highest (D. G. Thaler and C. V. Ravishankar, "Using Name-Based
//! Mappings to Increase Hit Rates", 1998).
//!
//! All nodes select the same server, whatever the order in which the servers are configured. An
//! additional server takes its share of the keys from the others, and no other key moves.

use std::cmp::Reverse;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::super::settings::Address;

/// The digests of the servers' names.
#[derive(Debug)]
pub(super) struct Rendezvous(Vec<u64>);

impl Rendezvous {
    /// The names of the servers are their addresses as they are configured. Nodes on which the
    /// address of a server is spelled differently do not select the same servers.
    pub(super) fn new(servers: &[Address]) -> Self {
        Self(servers.iter().map(|server| digest(server.to_string().as_bytes())).collect())
    }

    /// All servers, beginning with the server of `key`. Each following one would have the key
    /// if those before it did not exist.
    pub(super) fn order(&self, key: &[u8]) -> Vec<usize> {
        let key = digest(key);
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        order.sort_by_key(|&index| (Reverse(mix(self.0[index] ^ key)), Reverse(index)));
        order
    }

    /// The index of the server of `key`.
    pub(super) fn index(&self, key: &[u8]) -> usize {
        let key = digest(key);
        let weights = self.0.iter().map(|server| mix(server ^ key));
        weights.enumerate().max_by_key(|&(_, weight)| weight).map_or(0, |(index, _)| index)
    }
}

/// The digest has no secret: all nodes must agree, and the keys are keyed digests already.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Each bit of the sum affects each bit of the weight (G. L. Steele, D. Lea and C. H. Flood,
/// "Fast Splittable Pseudorandom Number Generators", 2014).
const fn mix(sum: u64) -> u64 {
    let sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn servers(count: u16) -> Vec<Address> {
        (0..count).map(|port| Address::tcp("redis", 6379 + port)).collect()
    }

    #[test]
    fn every_server_has_its_share() {
        for count in [2_u16, 3, 8] {
            let rendezvous = Rendezvous::new(&servers(count));
            let mut shares = vec![0_u32; count.into()];
            for key in 0..10_000_u32 {
                shares[rendezvous.index(&key.to_le_bytes())] += 1;
            }
            let fair = 10_000 / u32::from(count);
            for share in shares {
                assert!(share.abs_diff(fair) < fair / 8, "{share} of {fair}");
            }
        }
    }

    /// Nodes of different versions share the servers, so this must never change.
    #[test]
    fn the_indices_keys_never_change() {
        let rendezvous = Rendezvous::new(&servers(5));
        let indices: Vec<usize> =
            (0..10_u8).map(|key| rendezvous.index(format!("tollgate:{key}").as_bytes())).collect();
        assert_eq!(indices, [4, 4, 4, 2, 1, 0, 2, 0, 3, 2]);
    }

    proptest! {
        #[test]
        fn an_additional_server_only_takes_keys(count in 1_u16..12, key: u64) {
            let key = key.to_le_bytes();
            let before = Rendezvous::new(&servers(count)).index(&key);
            let after = Rendezvous::new(&servers(count + 1)).index(&key);
            prop_assert!(after == before || after == usize::from(count));
        }

        #[test]
        fn the_order_begins_with_the_server_of_the_key_and_continues_as_without_it(
            count in 2_u16..12,
            key: u64,
        ) {
            let key = key.to_le_bytes();
            let servers = servers(count);
            let order = Rendezvous::new(&servers).order(&key);
            prop_assert_eq!(order[0], Rendezvous::new(&servers).index(&key));
            let mut others = servers.clone();
            others.remove(order[0]);
            let next = Rendezvous::new(&others).index(&key);
            prop_assert_eq!(&others[next], &servers[order[1]]);
            prop_assert_eq!(order.len(), servers.len());
        }

        #[test]
        fn the_order_of_the_servers_does_not_matter(count in 1_u16..12, key: u64) {
            let key = key.to_le_bytes();
            let ordered = servers(count);
            let turned: Vec<Address> = ordered.iter().rev().cloned().collect();
            let index = Rendezvous::new(&ordered).index(&key);
            prop_assert_eq!(&turned[Rendezvous::new(&turned).index(&key)], &ordered[index]);
        }
    }
}
