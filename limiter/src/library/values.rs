//! Values of settings that are texts.

use http::HeaderName;
use ipnet::IpNet;

/// Names are in header fields.
const MAX_NAME_CHARS: usize = 128;

/// The header field of this name.
pub(super) fn field_name(name: &str) -> Result<HeaderName, String> {
    name.parse().map_err(|_| format!("\"{name}\" is not the name of a header field"))
}

/// Whether policies and plans can have this name.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_good = |c: char| c == ' ' || c.is_ascii_graphic();
    let has_form = !name.is_empty() && name.trim() == name && name.chars().all(is_good);
    if has_form && name.len() <= MAX_NAME_CHARS {
        return Ok(());
    }
    Err(format!("a name has from 1 to {MAX_NAME_CHARS} ASCII characters, without blanks around it"))
}

/// The network of this text. An address is a network of one.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let network =
        text.parse().or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
    network.map_err(|_: std::net::AddrParseError| {
        format!("\"{text}\" is not a network, like 10.0.0.0/8")
    })
}
