//! Why a listener cannot be opened, and what to do about it.

use std::io;

use crate::server::settings::ListenAddress;
use crate::server::transport::TlsError;

/// A listener that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system refuses the address.
    #[error("cannot listen on {address}: {source}{}", advice(source))]
    Socket {
        /// The address.
        address: ListenAddress,
        /// The error of the system.
        source: io::Error,
    },
    /// The TLS settings cannot be used.
    #[error("cannot listen on {address} with TLS: {source}")]
    Tls {
        /// The address.
        address: ListenAddress,
        /// The reason.
        source: TlsError,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program has this port: stop it, or choose another address"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE, and sockets a \
             directory that can be written to"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        io::ErrorKind::NotFound => "; make its directory first",
        _ => "",
    }
}
