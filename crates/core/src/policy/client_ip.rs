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

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The largest number of proxies that are followed. In a longer chain, the last address
/// that is read counts as the client.
const MAX_HOPS: usize = 32;

/// How the address of a client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOrigin {
    /// The peer is not a trusted proxy, so its forwarding field is not read.
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

/// What a peer says of its client in a forwarding field, though it is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbelieved {
    /// The address of the peer.
    pub peer: IpAddr,
    /// The name of the field, as it is usually written.
    pub field: &'static str,
    /// The client that would be known if the peer were trusted.
    pub client: IpAddr,
}

/// What the peer says of its client, if it is not trusted, and names another one than itself.
///
/// Few requests without a trusted proxy have such a field, so this costs a look at the names of the
/// fields.
#[inline]
pub(super) fn unbelieved(request: &RequestView<'_>, trusted: &CidrSet) -> Option<Unbelieved> {
    let fields = request.fields();
    if !fields.has(&X_FORWARDED_FOR) && !fields.has(&FORWARDED) {
        return None;
    }
    unbelieved_name(request, trusted)
}

#[inline(never)]
fn unbelieved_name(request: &RequestView<'_>, trusted: &CidrSet) -> Option<Unbelieved> {
    let peer = request.peer();
    if request.forwarding() != Forwarding::IfTrusted || trusted.contains(peer) {
        return None;
    }
    [(ForwardedHeader::XForwardedFor, "X-Forwarded-For"), (ForwardedHeader::Forwarded, "Forwarded")]
        .into_iter()
        .map(|(header, field)| (named(request, peer, trusted, &header), field))
        .find(|((client, origin), _)| *origin == AddressOrigin::Named && *client != peer)
        .map(|((client, _), field)| Unbelieved { peer, field, client })
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
    named(request, peer, trusted, header)
}

/// The client that the fields of a request from a trusted `peer` name.
fn named(
    request: &RequestView<'_>,
    peer: IpAddr,
    trusted: &CidrSet,
    header: &ForwardedHeader,
) -> (IpAddr, AddressOrigin) {
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
    let mut client = peer;
    let mut origin = AddressOrigin::Unnamed;
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
