//! Addresses that are reserved for a test while nothing listens on them.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};

use socket2::{Domain, SockRef, Socket, Type};

/// An address of the loopback that no other program gets while the value lives.
///
/// A bound socket holds it. Nothing listens on the address, and connections to it
/// are refused, except between [`Reserved::listen`] and [`close`]: a server
/// that stops comes back at its own address, whatever else runs meanwhile.
pub(crate) struct Reserved(Socket);

impl Reserved {
    pub(crate) fn new() -> Self {
        Self(bound_to(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let address = self.0.local_addr().expect("it is bound");
        address.as_socket().expect("an address of the Internet")
    }

    /// Listens on the address. There can be one listener at a time: [`close`] ends it.
    pub(crate) fn listen(&self) -> TcpListener {
        let socket = bound_to(self.address()).expect("an address of its own");
        socket.listen(128).expect("nothing else listens here");
        socket.into()
    }
}

/// Stops listening, at once.
///
/// Dropping the listener is not enough. While another thread starts a process, the
/// child has a copy of each descriptor until its `exec`, and a socket listens until its
/// last copy is closed.
pub(crate) fn close(listener: TcpListener) {
    SockRef::from(&listener).shutdown(Shutdown::Both).expect("it listens");
}

/// A socket with this address that does not listen.
///
/// Two sockets may have the same address if both allow it and neither listens yet.
pub(crate) fn bound_to(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[test]
fn an_address_is_free_again_although_a_child_process_has_a_copy_of_its_listener() {
    let reserved = Reserved::new();
    let listener = reserved.listen();
    let _copy = listener.try_clone().expect("a copy");
    close(listener);
    assert!(std::net::TcpStream::connect(reserved.address()).is_err());
    close(reserved.listen());
}
