//! Addresses to listen on, and blocks of addresses.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;
use crate::server;

const ADVICE: &str = "write an IP address and a port, like 0.0.0.0:8080 or \"[::]:8080\", or a \
                      Unix socket, like unix:/run/tollgate.sock";
/// The bound of the kernel, minus space for the temporary name of a socket.
const MAX_SOCKET_PATH_BYTES: usize = 96;

/// An address to listen on: `127.0.0.1:8080`, `[::]:8080`, `:8080` for all IPv4
/// addresses, or `unix:/run/tollgate.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub server::ListenAddress);

written_as_text!(
    ListenAddress,
    "An IP address and a port, or a Unix socket",
    "0.0.0.0:8080",
    "[::1]:8080",
    ":8080",
    "unix:/run/tollgate.sock"
);

impl FromStr for ListenAddress {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket_path(path).map(server::ListenAddress::Unix).map(Self);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self(server::ListenAddress::Tcp(address)));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(ScalarError::new(format!("the address \"{text}\" has no port"), ADVICE));
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = port_number(port)?;
            return Ok(Self(server::ListenAddress::Tcp((Ipv4Addr::UNSPECIFIED, port).into())));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| {
            ScalarError::new(format!("\"{text}\" is not an address to listen on"), ADVICE)
        })?;
        port_number(port)?;
        Err(ScalarError::new(format!("\"{host}\" is not an IP address"), ADVICE))
    }
}

/// The absolute path of a socket.
fn socket_path(path: &str) -> Result<PathBuf, ScalarError> {
    let advice = "write an absolute path, like unix:/run/tollgate.sock";
    if !path.starts_with('/') || path.ends_with('/') {
        return Err(ScalarError::new(format!("\"{path}\" is not the path of a socket"), advice));
    }
    if path.len() > MAX_SOCKET_PATH_BYTES {
        let message = format!("a socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes");
        return Err(ScalarError::new(message, "choose a shorter one"));
    }
    Ok(PathBuf::from(path))
}

/// A port, which may be 0.
pub fn port_number(text: &str) -> Result<u16, ScalarError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        ScalarError::new(format!("\"{text}\" is not a port"), "a port is a number up to 65535")
    })
}

/// A block of addresses: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr(pub IpNet);

written_as_text!(Cidr, "A block of IP addresses, or one address", "10.0.0.0/8", "2001:db8::/32");

impl FromStr for Cidr {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        let advice = "write a block like 10.0.0.0/8 or 2001:db8::/32, or one address";
        let block: IpNet = text.parse().map_err(|_| {
            ScalarError::new(format!("\"{text}\" is not a block of addresses"), advice)
        })?;
        // 10.0.0.1/8 is usually a mistake: either the address or the block is meant.
        if block.trunc() != block {
            let message = format!("\"{text}\" has bits set after its prefix");
            return Err(ScalarError::new(message, "set the bits after the prefix to zero"));
        }
        Ok(Self(block))
    }
}
