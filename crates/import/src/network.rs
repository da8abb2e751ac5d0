//! Networks: addresses with the length of their prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with the length of its prefix.
pub fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.unwrap_or(most);
    (prefix <= most).then_some((address, prefix))
}

/// The first bits of an address.
pub fn leading(address: IpAddr, length: u8) -> u128 {
    let bits = match address {
        IpAddr::V4(it) => u128::from(it.to_bits()) << 96,
        IpAddr::V6(it) => it.to_bits(),
    };
    bits.checked_shr(128 - u32::from(length)).unwrap_or(0)
}

/// Whether all of a network is in a wide one.
pub fn contains(wide: (IpAddr, u8), inner: (IpAddr, u8)) -> bool {
    wide.0.is_ipv4() == inner.0.is_ipv4()
        && wide.1 <= inner.1
        && leading(wide.0, wide.1) == leading(inner.0, wide.1)
}

/// A network without bits behind its prefix. nginx and Go pass over such bits, and the gateway refuses
/// them. Another text stays as it is.
pub fn masked(text: &str) -> String {
    let Some((address, length)) = network(text).filter(|_| text.contains('/')) else {
        return text.to_owned();
    };
    let first: IpAddr = match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from_bits(it.to_bits() & mask).into()
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from_bits(it.to_bits() & mask).into()
        }
    };
    if first == address { text.to_owned() } else { format!("{first}/{length}") }
}

/// Whether these networks together have every IPv4 address, or every public IPv6 address. The gateway
/// refuses such networks of proxies, because any client could name its own address.
pub fn are_everywhere(networks: &[String]) -> bool {
    const MAPPED: u128 = 0xffff << 32;
    const PUBLIC: u128 = 0b001 << 125;
    let range = |text: &String| {
        let (address, length) = network(text)?;
        let (bits, width) = match address {
            IpAddr::V4(it) => (MAPPED | u128::from(it.to_bits()), 32),
            IpAddr::V6(it) => (it.to_bits(), 128),
        };
        let inside = u128::MAX.checked_shr(128 - width + u32::from(length)).unwrap_or(0);
        Some((bits & !inside, bits | inside))
    };
    let mut ranges: Vec<(u128, u128)> = networks.iter().filter_map(range).collect();
    ranges.sort_unstable();
    let covers = |mut from: u128, to: u128| {
        for (first, last) in &ranges {
            if *first <= from && from <= *last {
                match last.checked_add(1).filter(|_| *last < to) {
                    Some(next) => from = next,
                    None => return true,
                }
            }
        }
        false
    };
    covers(MAPPED, MAPPED | 0xffff_ffff) || covers(PUBLIC, PUBLIC | (u128::MAX >> 3))
}

/// The networks of proxies that can be believed. `lost` gets each one with which all clients would be.
pub fn believable(networks: Vec<String>, mut lost: impl FnMut(&str)) -> Vec<String> {
    let mut kept = Vec::new();
    for network in networks {
        kept.push(network);
        if are_everywhere(&kept) {
            kept.pop().iter().for_each(|it| lost(it));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_lose_the_bits_behind_their_prefix() {
        for (text, is) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("10.1.2.3/32", "10.1.2.3/32"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("2001:DB8::/32", "2001:DB8::/32"),
            ("::1/0", "::/0"),
            ("10.0.0.0/33", "10.0.0.0/33"),
            ("all", "all"),
        ] {
            assert_eq!(masked(text), is, "{text}");
        }
    }

    #[test]
    fn all_addresses_are_never_believed() {
        for (texts, is) in [
            (&[][..], false),
            (&["0.0.0.0/0"], true),
            (&["::/0"], true),
            (&["2000::/3"], true),
            (&["::ffff:0:0/96"], true),
            (&["0.0.0.0/1", "128.0.0.0/1"], true),
            (&["128.0.0.0/1", "0.0.0.0/2", "10.0.0.0/8", "64.0.0.0/2"], true),
            (&["0.0.0.0/1", "128.0.0.0/2"], false),
            (&["3000::/4", "2000::/4"], true),
            (&["10.0.0.0/8", "fd00::/8", "192.0.2.1", "all"], false),
            (&["fc00::/7", "8000::/1"], false),
        ] {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(are_everywhere(&texts), is, "{texts:?}");
        }
        let networks = ["0.0.0.0/1", "10.0.0.0/8", "128.0.0.0/1", "::/0", "192.168.0.0/16"];
        let mut lost = Vec::new();
        let kept = believable(networks.map(str::to_owned).to_vec(), |it| lost.push(it.to_owned()));
        assert_eq!(kept, ["0.0.0.0/1", "10.0.0.0/8", "192.168.0.0/16"]);
        assert_eq!(lost, ["128.0.0.0/1", "::/0"]);
    }
}
