//! Values of settings that are texts.

use http::{HeaderName, HeaderValue};
use ipnet::IpNet;

/// The header field of this name.
pub(super) fn field_name(name: &str) -> Result<HeaderName, String> {
    name.parse().map_err(|_| format!("\"{name}\" is not the name of a header field"))
}

/// The network of this text. An address is a network of one.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let network =
        text.parse().or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
    network.map_err(|_: std::net::AddrParseError| {
        format!("\"{text}\" is not a network, like 10.0.0.0/8")
    })
}

/// The header field of this name and value. The value is not in the error, because it may be
/// secret.
pub(super) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let value = HeaderValue::from_str(value)
        .map_err(|_| format!("no header field {name} can have the exempt value"))?;
    Ok((field_name(name)?, value))
}
