//! The exchange with a service manager such as systemd: sockets that it opened for this
//! process, and reports of the state of the process. Without a service manager there are
//! no sockets and no reports.

use std::io;

use tracing::warn;

use crate::platform::{ServiceState, report_service_state};
use crate::server::{ListenAddress, OpenSocket};

/// The sockets that were opened for this process. They stay open as long as it runs,
/// because a reload may remove a listener and a later one may add it again.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<(ListenAddress, OpenSocket)>);

impl InheritedSockets {
    /// Takes the sockets that the environment names. To be called once.
    pub fn take() -> Self {
        let with_address = |socket: io::Result<OpenSocket>| {
            socket.and_then(|socket| Ok((socket.address()?, socket)))
        };
        let mut sockets = Vec::new();
        for (index, socket) in OpenSocket::inherited().map(with_address).enumerate() {
            match socket {
                Ok(socket) => sockets.push(socket),
                Err(error) => warn!("cannot use socket {index} of the service manager: {error}"),
            }
        }
        Self(sockets)
    }

    /// The socket at this address.
    pub fn at(&self, address: &ListenAddress) -> Option<&OpenSocket> {
        self.0.iter().find(|(known, _)| known == address).map(|(_, socket)| socket)
    }

    /// The addresses of all sockets.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.0.iter().map(|(address, _)| address)
    }
}

/// Reports the state of the process to the service manager, if there is one.
pub fn report(state: ServiceState) {
    if let Err(error) = report_service_state(state) {
        warn!("cannot report the state \"{state:?}\" to the service manager: {error}");
    }
}
