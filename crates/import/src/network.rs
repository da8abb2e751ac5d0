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
}
