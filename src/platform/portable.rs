//! Other Unix systems, for development.
//!
//! Workers share one socket for each listener. When the process stops, clients that
//! connect at that moment may be reset. There is no service manager.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use socket2::SockRef;

use super::{InheritedSocket, ServiceState};

/// See the form for Linux. On other systems one of the sockets receives all connections.
pub const KERNEL_BALANCES_LISTENERS: bool = false;

/// Accepts a TCP connection, and then lets it not block.
///
/// # Errors
/// See the form for Linux.
pub fn accept(listener: &SockRef<'_>) -> io::Result<(TcpStream, SocketAddr)> {
    let (socket, address) = listener.accept()?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), address.as_socket().ok_or(io::ErrorKind::ConnectionAborted)?))
}

/// Does nothing: the socket is closed after connections in progress were accepted.
///
/// # Errors
/// None.
pub fn refuse_new_connections(_: &SockRef<'_>) -> io::Result<()> {
    Ok(())
}

/// No sockets.
pub fn inherited_sockets() -> Vec<io::Result<InheritedSocket>> {
    Vec::new()
}

/// Not known.
pub fn is_mount(_: &Path) -> bool {
    false
}

/// Does nothing: other systems give a priority to a whole process.
pub const fn lower_priority() {}

/// Does nothing.
///
/// # Errors
/// None.
pub fn report_service_state(_: ServiceState) -> io::Result<()> {
    Ok(())
}
