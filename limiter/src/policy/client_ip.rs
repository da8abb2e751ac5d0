//! The address of the client, behind proxies.
//!
//! Without a trusted peer, no field is read. A proxy that asks about the request of its client
//! counts as trusted. With a trusted peer, the client is the rightmost address that is not a
//! trusted proxy. Trusted proxies wrote everything to the right of this address. A client may
//! have forged everything to the left of it, and this part never changes the result.

use std::net::IpAddr;

use http::HeaderName;
use http::header::FORWARDED;

use super::ForwardedHeader;
use super::cidr::CidrSet;
use super::forwarded::{ElementsFromRight, address, node_of};
use crate::request::{Forwarding, RequestView};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The largest number of proxies that are followed. In a longer chain, the last address
/// that is read counts as the client.
const MAX_HOPS: usize = 32;

/// How the address of a client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOrigin {
    /// The peer is no trusted proxy, so its forwarding field is not read.
    UntrustedPeer,
    /// A load balancer forwarded the connection without its source, so the peer may not name
    /// a client.
    HiddenPeer,
    /// The peer is a trusted proxy, and names no client.
    Unnamed,
    /// Trusted proxies name the client.
    Named,
    /// Trusted proxies name the client, and before it stands what is not an address.
    Malformed,
}

/// The client's address, and how it is known. An IPv4-mapped address is converted to IPv4.
pub(super) fn client_ip(
    request: &RequestView<'_>,
    trusted: &CidrSet,
    header: &ForwardedHeader,
) -> (IpAddr, AddressOrigin) {
    let peer = request.peer();
    let header = match request.forwarding() {
        Forwarding::Never => return (peer, AddressOrigin::HiddenPeer),
        Forwarding::IfTrusted if !trusted.contains(peer) => {
            return (peer, AddressOrigin::UntrustedPeer);
        }
        Forwarding::IfTrusted => header,
        // A proxy that asks may pass on any other field as its client has sent it.
        Forwarding::Asks => &ForwardedHeader::XForwardedFor,
    };
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
        // The field has one address, and no chain. A proxy that adds a line instead of
        // replacing the client's line adds it at the end.
        ForwardedHeader::Single(name) => match lines(name).next().map(address) {
            Some(Some(client)) => (client, AddressOrigin::Named),
            Some(None) => (peer, AddressOrigin::Malformed),
            None => (peer, AddressOrigin::Unnamed),
        },
    }
}

/// Follows the hops from the right while they are trusted. A malformed element ends the
/// chain: the proxy or client that wrote it is the last known hop.
fn rightmost_untrusted<'r>(
    peer: IpAddr,
    trusted: &CidrSet,
    hops: impl Iterator<Item = &'r [u8]>,
    read: fn(&[u8]) -> Option<IpAddr>,
) -> (IpAddr, AddressOrigin) {
    let (mut client, mut origin) = (peer, AddressOrigin::Unnamed);
    // Empty elements have no meaning (RFC 9110, section 5.6.1.2), but they count towards
    // the limit.
    for hop in hops.take(MAX_HOPS).filter(|hop| !hop.trim_ascii().is_empty()) {
        let Some(next) = read(hop) else { return (client, AddressOrigin::Malformed) };
        (client, origin) = (next, AddressOrigin::Named);
        if !trusted.contains(client) {
            break;
        }
    }
    (client, origin)
}

#[cfg(test)]
mod tests;
