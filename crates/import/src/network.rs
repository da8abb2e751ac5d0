//! Networks: addresses with the length of their prefix.

use std::net::IpAddr;

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
