//! The text of an address.

use std::fmt::Write as _;
use std::net::IpAddr;

/// Appends the text of an address, as `Display` writes it. The general formatter takes ten times as
/// many instructions for an IPv4 address, which each connection and each line of a log needs.
pub fn push_address(text: &mut String, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (index, octet) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    text.push('.');
                }
                text.push_str(itoa::Buffer::new().format(octet));
            }
        }
        IpAddr::V6(address) => {
            write!(text, "{address}").expect("writing to memory does not fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_written_as_it_is_displayed(address in any::<IpAddr>()) {
            let mut text = "ip ".to_owned();
            push_address(&mut text, address);
            prop_assert_eq!(text, format!("ip {address}"));
        }
    }
}
