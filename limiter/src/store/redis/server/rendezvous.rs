//! Which of several independent servers keeps a key: the one whose digest
//! together with the key is highest (D. G. Thaler and C. V. Ravishankar,
//! "Using Name-Based Mappings to Increase Hit Rates", 1998).
//!
//! All nodes agree, whatever the order in which the servers are written. One
//! more server takes its share of the keys from the others and moves no other.

use std::cmp::Reverse;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::super::settings::Address;

/// The servers, by what stands for their names in the digests.
#[derive(Debug)]
pub(super) struct Rendezvous(Vec<u64>);

impl Rendezvous {
    /// The servers are known by their addresses, as they are written: nodes
    /// that write one server differently do not agree.
    pub(super) fn new(servers: &[Address]) -> Self {
        Self(servers.iter().map(|server| digest(server.to_string().as_bytes())).collect())
    }

    /// All servers, the one of `key` first, and each next one that which would keep
    /// it without those before.
    pub(super) fn order(&self, key: &[u8]) -> Vec<usize> {
        let key = digest(key);
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        order.sort_by_key(|&place| (Reverse(mix(self.0[place] ^ key)), Reverse(place)));
        order
    }

    /// The server of `key`, by its place in the list.
    pub(super) fn place(&self, key: &[u8]) -> usize {
        let key = digest(key);
        let weights = self.0.iter().map(|server| mix(server ^ key));
        weights.enumerate().max_by_key(|&(_, weight)| weight).map_or(0, |(place, _)| place)
    }
}

/// Not keyed: all nodes must agree, and keys are digests under a secret already.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Every bit of the sum decides over every bit of the weight (G. L. Steele, D.
/// Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
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
                shares[rendezvous.place(&key.to_le_bytes())] += 1;
            }
            let fair = 10_000 / u32::from(count);
            for share in shares {
                assert!(share.abs_diff(fair) < fair / 8, "{share} of {fair}");
            }
        }
    }

    /// Nodes of different versions share the servers: this must never change.
    #[test]
    fn places_are_forever() {
        let rendezvous = Rendezvous::new(&servers(5));
        let places: Vec<usize> =
            (0..10_u8).map(|key| rendezvous.place(format!("tollgate:{key}").as_bytes())).collect();
        assert_eq!(places, [4, 4, 4, 2, 1, 0, 2, 0, 3, 2]);
    }

    proptest! {
        #[test]
        fn one_more_server_only_takes(count in 1_u16..12, key: u64) {
            let key = key.to_le_bytes();
            let before = Rendezvous::new(&servers(count)).place(&key);
            let after = Rendezvous::new(&servers(count + 1)).place(&key);
            prop_assert!(after == before || after == usize::from(count));
        }

        #[test]
        fn the_order_begins_with_the_place_and_goes_on_as_if_it_were_not_there(
            count in 2_u16..12,
            key: u64,
        ) {
            let (key, servers) = (key.to_le_bytes(), servers(count));
            let order = Rendezvous::new(&servers).order(&key);
            prop_assert_eq!(order[0], Rendezvous::new(&servers).place(&key));
            let mut others = servers.clone();
            others.remove(order[0]);
            let next = Rendezvous::new(&others).place(&key);
            prop_assert_eq!(&others[next], &servers[order[1]]);
            prop_assert_eq!(order.len(), servers.len());
        }

        #[test]
        fn the_order_of_the_servers_does_not_matter(count in 1_u16..12, key: u64) {
            let key = key.to_le_bytes();
            let ordered = servers(count);
            let turned: Vec<Address> = ordered.iter().rev().cloned().collect();
            let place = Rendezvous::new(&ordered).place(&key);
            prop_assert_eq!(&turned[Rendezvous::new(&turned).place(&key)], &ordered[place]);
        }
    }
}
