//! Sets of networks.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of networks with a fast lookup. An IPv4 address counts as the IPv6 address that it
/// is mapped to (RFC 4291, section 2.5.5.2). So `10.0.0.0/8` and `::ffff:10.0.0.0/104` are
/// the same network, and `::/0` contains every address.
#[derive(Clone, Debug, Default)]
pub(super) struct CidrSet {
    /// The first and last address of each range. The ranges ascend and do not touch.
    ranges: Box<[(u128, u128)]>,
}

impl CidrSet {
    pub(super) fn new(nets: &[IpNet]) -> Self {
        let mut ranges: Vec<_> = nets.iter().map(range).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1.saturating_add(1);
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        Self { ranges: ranges.into() }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = number(address);
        let after = self.ranges.partition_point(|&(first, _)| first <= address);
        after > 0 && address <= self.ranges[after - 1].1
    }
}

/// Whether these networks together contain every IPv4 address, or every public IPv6 address
/// (2000::/3, RFC 4291, section 2.4).
pub fn are_everywhere(nets: &[IpNet]) -> bool {
    const MAPPED: (u128, u128) = (0xffff << 32, (0xffff << 32) | 0xffff_ffff);
    const PUBLIC: (u128, u128) = (0b001 << 125, (0b001 << 125) | (u128::MAX >> 3));
    let set = CidrSet::new(nets);
    let has = |(first, last)| set.ranges.iter().any(|range| range.0 <= first && last <= range.1);
    has(MAPPED) || has(PUBLIC)
}

/// Whether one of a few networks, as a policy lists them, contains `address`.
pub(super) fn any_contains(nets: &[IpNet], address: IpAddr) -> bool {
    let address = number(address);
    nets.iter().map(range).any(|(first, last)| (first..=last).contains(&address))
}

fn range(net: &IpNet) -> (u128, u128) {
    (number(net.network()), number(net.broadcast()))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
    .to_bits()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn an_ipv4_address_and_its_mapped_form_are_the_same() {
        let set = CidrSet::new(&nets(&["10.0.0.0/8", "::ffff:192.168.0.0/112"]));
        for inside in ["10.1.2.3", "::ffff:10.1.2.3", "192.168.7.7"] {
            assert!(set.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.0", "::10.1.2.3", "192.169.0.0", "::1"] {
            assert!(!set.contains(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn networks_that_touch_become_one_range() {
        let set = CidrSet::new(&nets(&["10.0.1.0/24", "10.0.0.0/24", "10.0.0.0/25", "::/0"]));
        assert_eq!(set.ranges.len(), 1);
        let set = CidrSet::new(&nets(&["10.0.2.0/24", "10.0.0.0/24"]));
        assert_eq!(set.ranges.len(), 2);
    }

    #[test]
    fn networks_are_everywhere_if_they_leave_out_no_public_address() {
        let everywhere: [&[&str]; 6] = [
            &["0.0.0.0/0"],
            &["::/0"],
            &["::ffff:0:0/96"],
            &["0.0.0.0/1", "10.0.0.0/8", "128.0.0.0/1"],
            &["0.0.0.0/1", "::ffff:128.0.0.0/97"],
            &["2000::/4", "3000::/4"],
        ];
        for texts in everywhere {
            assert!(are_everywhere(&nets(texts)), "{texts:?}");
        }
        for texts in [&["0.0.0.0/1", "2000::/4"][..], &["128.0.0.0/1"], &["fc00::/7"], &[]] {
            assert!(!are_everywhere(&nets(texts)), "{texts:?}");
        }
    }

    /// Networks with few bits, so that they overlap and contain the generated addresses.
    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            (0_u32..64).prop_map(|low| IpAddr::V4((0x0a00_0000 | low).into())),
            (0_u128..64).prop_map(|low| IpAddr::V6((0xffff_0a00_0000 | low).into())),
            (0_u128..64).prop_map(|low| IpAddr::V6(low.into())),
            any::<IpAddr>(),
        ]
    }

    fn net() -> impl Strategy<Value = IpNet> {
        (address(), 0_u8..=128).prop_map(|(address, length)| {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            IpNet::new(address, length.min(longest)).unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_networks_contains(
            nets in proptest::collection::vec(net(), 0..8),
            address in address(),
        ) {
            prop_assert_eq!(CidrSet::new(&nets).contains(address), any_contains(&nets, address));
        }

        #[test]
        fn networks_of_one_family_contain_what_they_say(net in net(), address in address()) {
            prop_assume!(net.addr().is_ipv4() == address.is_ipv4());
            prop_assert_eq!(any_contains(&[net], address), net.contains(&address));
        }
    }
}
