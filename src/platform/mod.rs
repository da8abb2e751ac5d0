//! The parts of the gateway that need Linux, and a portable form of each.
//!
//! Linux is the target. The portable forms exist so that the gateway builds and runs on
//! macOS and FreeBSD for development. Code outside this module uses no interface that
//! only Linux has; `crates/tidy` checks this against a list.

mod hangup;
#[cfg(target_os = "linux")]
mod linux;
mod other_listeners;
// Tests on Linux compile the portable form too, so that it keeps compiling.
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
mod process_usage;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use tokio_util::either::Either;

#[cfg(target_os = "linux")]
pub use linux::{
    KERNEL_BALANCES_LISTENERS, accept, inherited_sockets, is_mount, lower_priority,
    refuse_new_connections, report_service_state,
};
#[cfg(not(target_os = "linux"))]
pub use portable::{
    KERNEL_BALANCES_LISTENERS, accept, inherited_sockets, is_mount, lower_priority,
    refuse_new_connections, report_service_state,
};

pub use hangup::handles_hangup;
pub use other_listeners::{OtherListener, OtherListeners, OwnSockets, socket_inode};
pub use process_usage::process_usage;

/// A listening socket that a service manager opened for this process.
pub type InheritedSocket = Either<TcpListener, UnixListener>;

/// The state of the process, as a service manager distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The gateway accepts connections.
    Ready,
    /// The configuration is read again; `Ready` follows.
    Reloading,
    /// Requests in progress are finished.
    Stopping,
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read as _};
    use std::net::TcpStream;
    use std::path::Path;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn an_accepted_connection_does_not_block() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let is_pending = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        for accept in [accept, portable::accept] {
            assert!(accept(&SockRef::from(&listener)).is_err_and(is_pending));
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut socket, address) = accept(&SockRef::from(&listener)).unwrap();
            assert_eq!(address, client.local_addr().unwrap());
            assert!(socket.read(&mut [0]).is_err_and(is_pending));
        }
    }

    #[test]
    fn the_root_is_a_mount_and_a_new_file_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(is_mount(Path::new("/")) && !is_mount(file.path()));
    }

    #[test]
    fn the_portable_forms_change_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        portable::refuse_new_connections(&SockRef::from(&listener)).unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(portable::inherited_sockets().is_empty());
        portable::report_service_state(ServiceState::Ready).unwrap();
        assert!(!portable::is_mount(Path::new("/")));
        portable::lower_priority();
        assert_ne!(portable::KERNEL_BALANCES_LISTENERS, KERNEL_BALANCES_LISTENERS);
    }
}
