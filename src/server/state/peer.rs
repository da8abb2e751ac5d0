//! The other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address; for a Unix socket, the loopback address of this machine. If a trusted
    /// load balancer passed the connection on, the address that the balancer names.
    pub address: SocketAddr,
    /// The address at which it reached the gateway, or the load balancer.
    pub local: SocketAddr,
    /// Whether a trusted peer may name another client in fields. False if a load balancer
    /// passed the connection on without naming its client.
    pub may_forward: bool,
    /// Whether it uses TLS.
    pub is_encrypted: bool,
    /// Its identity, from its client certificate.
    pub identity: Option<Arc<str>>,
    /// The user of its process, if it uses a Unix socket and the system tells it.
    pub uid: Option<u32>,
}

impl Peer {
    /// A peer of which only the addresses are known.
    pub const fn new(address: SocketAddr, local: SocketAddr) -> Self {
        Self { address, local, may_forward: true, is_encrypted: false, identity: None, uid: None }
    }
}
