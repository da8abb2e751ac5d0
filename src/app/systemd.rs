//! What a service manager, such as systemd, and this process tell each other:
//! sockets that it has opened for us (`sd_listen_fds(3)`), and how we are doing
//! (`sd_notify(3)`). Without one there are no sockets, and nobody is told.

use std::io;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tracing::warn;

use crate::server::{ListenAddress, OpenSocket};

/// Sockets that were opened for this process. They are kept open as long as it
/// runs: a listener that a reload takes away may come back.
#[derive(Debug, Default)]
pub(super) struct Inherited(Vec<(ListenAddress, OpenSocket)>);

impl Inherited {
    /// Takes those that the environment tells of. To be called once.
    pub(super) fn take() -> Self {
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..passed.len() {
            let socket = open_socket(&mut passed, index);
            let socket = socket.and_then(|socket| Ok((socket.address()?, socket)));
            match socket {
                Ok(socket) => sockets.push(socket),
                Err(error) => warn!("socket {index} that was passed on cannot be used: {error}"),
            }
        }
        Self(sockets)
    }

    /// The socket that is open at this address.
    pub(super) fn at(&self, address: &ListenAddress) -> Option<&OpenSocket> {
        self.0.iter().find(|(known, _)| known == address).map(|(_, socket)| socket)
    }

    /// The addresses of all.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.0.iter().map(|(address, _)| address)
    }
}

fn open_socket(passed: &mut ListenFd, index: usize) -> io::Result<OpenSocket> {
    // It is left in its place if it is of another kind.
    let socket = match passed.take_unix_listener(index) {
        Ok(socket) => socket.map(OpenSocket::Unix),
        Err(_) => passed.take_tcp_listener(index)?.map(OpenSocket::Tcp),
    };
    socket.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// How the process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It listens.
    Ready,
    /// It reads its file again, and will be ready when it is done.
    Reloading,
    /// Requests under way are finished.
    Stopping,
}

/// Tells the service manager, if there is one.
pub(super) fn tell(state: State) {
    let told = match state {
        State::Ready => sd_notify::notify(&[NotifyState::Ready]),
        // The time shows which reload it is that ends with the next "ready".
        State::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        State::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
    };
    if let Err(error) = told {
        warn!("the service manager cannot be told of \"{state:?}\": {error}");
    }
}
