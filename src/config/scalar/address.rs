//! Addresses: where to listen, and blocks of addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

use super::{ScalarError, written_as_text};

const ADVICE: &str = "write an IP address and a port, like 0.0.0.0:8080 or \"[::]:8080\"";

/// Where to listen: `127.0.0.1:8080`, `[::]:8080`, or `:8080` for all IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

written_as_text!(ListenAddress, "An IP address and a port", "0.0.0.0:8080", "[::1]:8080", ":8080");

impl FromStr for ListenAddress {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text.starts_with("unix:") {
            return Err(ScalarError::new("Unix sockets are not supported yet", ADVICE));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self(address));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(ScalarError::new(format!("the address \"{text}\" has no port"), ADVICE));
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = port_number(port)?;
            return Ok(Self((Ipv4Addr::UNSPECIFIED, port).into()));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| {
            ScalarError::new(format!("\"{text}\" is no address to listen on"), ADVICE)
        })?;
        port_number(port)?;
        Err(ScalarError::new(format!("\"{host}\" is no IP address"), ADVICE))
    }
}

/// A port, also 0.
pub(super) fn port_number(text: &str) -> Result<u16, ScalarError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        ScalarError::new(format!("\"{text}\" is no port"), "a port is a number up to 65535")
    })
}

/// A block of addresses: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) struct Cidr(pub(in crate::config) IpNet);

written_as_text!(Cidr, "A block of IP addresses, or one address", "10.0.0.0/8", "2001:db8::/32");

impl FromStr for Cidr {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        let advice = "write a block like 10.0.0.0/8 or 2001:db8::/32, or one address";
        let block: IpNet = text.parse().map_err(|_| {
            ScalarError::new(format!("\"{text}\" is no block of addresses"), advice)
        })?;
        // 10.0.0.1/8 is most often a slip: was the address meant, or the block?
        if block.trunc() != block {
            let message = format!("\"{text}\" has bits set behind its prefix");
            return Err(ScalarError::new(message, "set the bits behind the prefix to zero"));
        }
        Ok(Self(block))
    }
}
