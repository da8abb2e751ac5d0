//! The sockets that connections come in by: one for each worker.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use tokio_util::either::Either;

use super::stream::{ON_THIS_MACHINE, Transport};
use super::{ListenAddress, Peer};

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;

/// A filter for packets (classic BPF) that takes all but those that ask for a
/// connection: SYN is bit 1 of the 13th byte of TCP's head (RFC 9293, section 3.1).
const NO_SYN: [SockFilter; 4] = [
    SockFilter::new(0x30, 0, 0, 13),       // load the byte
    SockFilter::new(0x45, 0, 1, 2),        // is the bit set?
    SockFilter::new(0x06, 0, 0, 0),        // then take nothing of the packet,
    SockFilter::new(0x06, 0, 0, u32::MAX), // else all of it
];

/// A socket that listens; connections wait in it until somebody accepts them.
#[derive(Debug)]
pub enum OpenSocket {
    /// At an address and a port.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener),
}

impl OpenSocket {
    /// Where it listens.
    ///
    /// # Errors
    /// If it has no name.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(ListenAddress::Tcp),
            Self::Unix(socket) => {
                let address = socket.local_addr()?;
                let path = address.as_pathname().ok_or(io::ErrorKind::InvalidInput)?;
                Ok(ListenAddress::Unix(path.to_owned()))
            }
        }
    }

    /// Another handle of the same socket, which several workers can wait for.
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                socket.try_clone().map(Self::Tcp)
            }
            Self::Unix(socket) => {
                socket.set_nonblocking(true)?;
                socket.try_clone().map(Self::Unix)
            }
        }
    }
}

/// A worker's socket.
#[derive(Debug)]
pub(super) struct BoundSocket {
    socket: OpenSocket,
    owner: Owner,
}

/// Who decides on a socket's end.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    /// The worker that has it.
    Worker,
    /// All workers, and with it ends its name.
    Process(Arc<SocketFile>),
    /// Somebody else, who may pass it on to the next process.
    Other,
}

impl BoundSocket {
    /// Listens on `address`, once for each of `workers`. Returns the address
    /// with the port that it really has.
    pub(super) fn bind(
        address: &ListenAddress,
        workers: usize,
    ) -> io::Result<(Vec<Self>, ListenAddress)> {
        match address {
            ListenAddress::Tcp(address) => {
                let first = bind_tcp(*address)?;
                // Port 0 is whatever the first worker got.
                let address = first.local_addr()?;
                let mut sockets = vec![first];
                for _ in 1..workers {
                    sockets.push(bind_tcp(address)?);
                }
                let own = |socket| Self { socket: OpenSocket::Tcp(socket), owner: Owner::Worker };
                let sockets = sockets.into_iter().map(own).collect();
                Ok((sockets, ListenAddress::Tcp(address)))
            }
            ListenAddress::Unix(path) => {
                let (socket, file) = bind_unix(path)?;
                let owner = Owner::Process(Arc::new(file));
                let sockets = Self::shared(&OpenSocket::Unix(socket), &owner, workers)?;
                Ok((sockets, address.clone()))
            }
        }
    }

    /// Uses a socket that somebody else owns, in each of `workers`.
    pub(super) fn adopt(socket: &OpenSocket, workers: usize) -> io::Result<Vec<Self>> {
        Self::shared(socket, &Owner::Other, workers)
    }

    fn shared(socket: &OpenSocket, owner: &Owner, workers: usize) -> io::Result<Vec<Self>> {
        let share = |_| Ok(Self { socket: socket.try_clone()?, owner: owner.clone() });
        (0..workers).map(share).collect()
    }

    /// Ready to accept on this worker's runtime.
    pub(super) fn into_acceptor(self) -> io::Result<Acceptor> {
        let owner = self.owner;
        Ok(match self.socket {
            OpenSocket::Tcp(socket) => {
                Acceptor::Tcp { socket: tokio::net::TcpListener::from_std(socket)?, owner }
            }
            OpenSocket::Unix(socket) => {
                Acceptor::Unix { socket: tokio::net::UnixListener::from_std(socket)?, owner }
            }
        })
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Binds beside the path and moves the socket there, so that one that another
/// process still listens on is replaced without a moment in which none is there.
fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if path.symlink_metadata().is_ok_and(|found| !is_socket(&found)) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file there is no socket"));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    // Of a process with our number that did not live to move it.
    let _ = fs::remove_file(&beside);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&socket2::SockAddr::unix(&beside)?)?;
    socket.listen(BACKLOG)?;
    let file = SocketFile { path: path.to_owned(), inode: fs::metadata(&beside)?.ino() };
    fs::rename(&beside, path)?;
    Ok((socket.into(), file))
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_socket()
}

/// A Unix socket's name, removed when nobody listens any more, unless another
/// process has taken it over.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // If it cannot be removed, the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A socket on a worker's runtime.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp { socket: tokio::net::TcpListener, owner: Owner },
    Unix { socket: tokio::net::UnixListener, owner: Owner },
}

impl Acceptor {
    /// Has no more connections opened, but for those that are being opened.
    /// False: that is not ours to say, and what comes is for somebody else.
    pub(super) fn open_no_more(&self) -> bool {
        match self {
            Self::Tcp { owner: Owner::Other, .. } | Self::Unix { owner: Owner::Other, .. } => false,
            Self::Tcp { socket, .. } => {
                // Where this does not work, a client that comes in the last moment is reset.
                let _ = SockRef::from(socket).attach_filter(&NO_SYN);
                true
            }
            Self::Unix { owner, .. } => {
                if let Owner::Process(file) = owner {
                    file.remove();
                }
                true
            }
        }
    }

    /// The next connection.
    ///
    /// # Errors
    /// Those of the connection, or of a process that is out of something.
    pub(super) async fn accept(&self) -> io::Result<(Transport, Peer)> {
        let peer = |address, local| Peer {
            address,
            local,
            may_forward: true,
            is_encrypted: false,
            identity: None,
            interim: None,
        };
        match self {
            Self::Tcp { socket, .. } => {
                let (stream, address) = socket.accept().await?;
                // Without it a response could wait for an acknowledgement.
                let _ = stream.set_nodelay(true);
                let local = stream.local_addr()?;
                Ok((Either::Left(stream), peer(address, local)))
            }
            Self::Unix { socket, .. } => {
                let (stream, _) = socket.accept().await?;
                Ok((Either::Right(stream), peer(ON_THIS_MACHINE, ON_THIS_MACHINE)))
            }
        }
    }
}
