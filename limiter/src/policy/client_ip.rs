//! Who the client is, behind proxies.
//!
//! Guarantees: without a trusted peer no field is looked at. With one, the
//! client is the rightmost address that is no trusted proxy: everything right
//! of it was written by proxies we trust, everything left of it may be made up
//! and never changes the answer.

use std::net::IpAddr;

use http::HeaderName;
use http::header::FORWARDED;

use super::ForwardedHeader;
use super::cidr::CidrSet;
use super::forwarded::{ElementsFromRight, address, node_of};
use crate::request::RequestView;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How many proxies a request may have come through. A longer chain is cut:
/// the last one looked at counts as the client.
const MAX_HOPS: usize = 32;

/// The client's address, IPv4-mapped addresses unmapped.
pub(super) fn client_ip(
    request: &RequestView<'_>,
    trusted: &CidrSet,
    header: &ForwardedHeader,
) -> IpAddr {
    let peer = request.peer();
    if !request.may_forward() || !trusted.contains(peer) {
        return peer;
    }
    let lines = |name| request.headers().get_all(name).iter().rev().map(|line| line.as_bytes());
    match header {
        ForwardedHeader::XForwardedFor => {
            let hops = lines(&X_FORWARDED_FOR).flat_map(|line| line.rsplit(|&byte| byte == b','));
            rightmost_untrusted(peer, trusted, hops, address)
        }
        ForwardedHeader::Forwarded => {
            let hops = lines(&FORWARDED).flat_map(ElementsFromRight::of);
            rightmost_untrusted(peer, trusted, hops, node_of)
        }
        // One address, no chain. A proxy that adds a line instead of replacing
        // what the client sent adds it at the end.
        ForwardedHeader::Single(name) => lines(name).next().and_then(address).unwrap_or(peer),
    }
}

/// Follows the hops from the right as long as they are trusted. Garbage ends
/// the chain: whoever wrote it is the last hop known.
fn rightmost_untrusted<'r>(
    peer: IpAddr,
    trusted: &CidrSet,
    hops: impl Iterator<Item = &'r [u8]>,
    read: fn(&[u8]) -> Option<IpAddr>,
) -> IpAddr {
    let mut client = peer;
    // Empty elements mean nothing (RFC 9110, section 5.6.1.2), but are looked at, too.
    for hop in hops.take(MAX_HOPS).filter(|hop| !hop.trim_ascii().is_empty()) {
        let Some(next) = read(hop) else { break };
        client = next;
        if !trusted.contains(client) {
            break;
        }
    }
    client
}

#[cfg(test)]
mod tests;
