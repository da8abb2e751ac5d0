//! The other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its address; for a Unix socket, the loopback address of this machine. If a trusted
    /// load balancer passed the connection on, the address that the balancer names.
    pub(crate) address: SocketAddr,
    /// The address at which it reached the gateway, or the load balancer.
    pub(crate) local: SocketAddr,
    /// Whether a trusted peer may name another client in fields. False if a load balancer
    /// passed the connection on without naming its client.
    pub(crate) may_forward: bool,
    /// Whether it uses TLS.
    pub(crate) is_encrypted: bool,
    /// Its identity, from its client certificate.
    pub(crate) identity: Option<Arc<str>>,
    /// The user of its process, if it uses a Unix socket and the system tells it.
    pub(crate) uid: Option<u32>,
}

impl Peer {
    /// A peer of which only the addresses are known.
    pub(in crate::server) const fn new(address: SocketAddr, local: SocketAddr) -> Self {
        Self { address, local, may_forward: true, is_encrypted: false, identity: None, uid: None }
    }
}
