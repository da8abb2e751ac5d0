//! Addresses that are reserved for a test while nothing listens on them.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// An address of the loopback that no other program gets while the value lives.
///
/// A bound socket holds it. Nothing listens on the address, and connections to it
/// are refused, except while a listener of [`Reserved::listen`] lives: a server
/// that stops comes back at its own address, whatever else runs meanwhile.
pub(crate) struct Reserved(Socket);

impl Reserved {
    pub(crate) fn new() -> Self {
        Self(bound_to(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let address = self.0.local_addr().expect("it is bound");
        address.as_socket().expect("an address of the Internet")
    }

    /// Listens on the address. There can be one listener at a time.
    pub(crate) fn listen(&self) -> TcpListener {
        let socket = bound_to(self.address());
        socket.listen(128).expect("nothing else listens here");
        socket.into()
    }
}

/// Two sockets may have the same address if both allow it and neither listens yet.
fn bound_to(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.bind(&address.into()).expect("an address of its own");
    socket
}
