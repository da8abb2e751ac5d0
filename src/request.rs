//! A request as the rules see it: borrowed, and the same whether it came over
//! HTTP, from another gateway's question, or out of a log.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, Method};

/// What rules may look at. Nothing in it is trusted: forwarding fields are
/// believed only by `rules::client_ip`, which knows the trusted proxies.
#[derive(Clone, Debug)]
pub struct RequestView<'a> {
    /// The method, as sent.
    pub method: &'a Method,
    /// The host asked for, in lower case and without port; empty if none was named.
    pub host: Cow<'a, str>,
    /// The path in the one form that rules compare, see [`normal_path`].
    pub path: Cow<'a, str>,
    /// What follows the first `?`, as sent.
    pub query: Option<&'a str>,
    /// All header fields.
    pub headers: &'a HeaderMap,
    /// The address of the other end of the connection, IPv4-mapped addresses unmapped.
    pub peer: IpAddr,
}
