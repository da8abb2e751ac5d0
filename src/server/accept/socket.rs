//! Listening sockets, one for each worker.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::process::geteuid;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio_util::either::Either;

use crate::platform::{self, KERNEL_BALANCES_LISTENERS};
use crate::server::settings::ListenAddress;
use crate::server::state::Peer;
use crate::server::transport::{LOCAL_PEER, Tcp, Transport};

/// How many connections the kernel completes before they are accepted.
const BACKLOG: i32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub enum OpenSocket {
    /// Listens on an address and a port.
    Tcp(TcpListener),
    /// Listens on a path.
    Unix(UnixListener),
}

impl OpenSocket {
    /// The sockets that a service manager opened for this process, each with the error
    /// if it cannot be used. To be called once.
    pub fn inherited() -> impl Iterator<Item = io::Result<Self>> {
        platform::inherited_sockets().into_iter().map(|socket| {
            socket.map(|socket| match socket {
                Either::Left(socket) => Self::Tcp(socket),
                Either::Right(socket) => Self::Unix(socket),
            })
        })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// If it has none.
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

    /// The inode of a TCP socket. A Unix socket at the same path replaces the one before.
    fn inode(&self) -> Option<u64> {
        match self {
            Self::Tcp(socket) => platform::socket_inode(socket.as_fd()),
            Self::Unix(_) => None,
        }
    }

    /// Another handle of the same socket, for another worker.
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

/// The socket of one worker.
#[derive(Debug)]
pub struct WorkerSocket {
    socket: OpenSocket,
    owner: Owner,
}

/// What owns a socket, and closes it.
#[derive(Clone, Debug)]
enum Owner {
    /// This process.
    Process,
    /// This process; the name of the socket is removed with the last handle.
    NamedByProcess(Arc<SocketFile>),
    /// The service manager, which may pass the socket on to the next process.
    ServiceManager,
}

impl WorkerSocket {
    /// Listens on `address` for each of `workers`. Returns the address with its actual
    /// port. `mode`: the permissions of the file of a Unix socket, if not the usual ones.
    pub fn bind(
        address: &ListenAddress,
        workers: usize,
        mode: Option<u32>,
    ) -> io::Result<(Vec<Self>, ListenAddress)> {
        match address {
            ListenAddress::Tcp(address) if KERNEL_BALANCES_LISTENERS => {
                Self::bind_each(*address, workers)
            }
            ListenAddress::Tcp(address) => Self::bind_shared(*address, workers),
            ListenAddress::Unix(path) => {
                let (socket, file) = bind_unix(path, mode)?;
                let owner = Owner::NamedByProcess(Arc::new(file));
                let sockets = Self::share(&OpenSocket::Unix(socket), &owner, workers)?;
                Ok((sockets, address.clone()))
            }
        }
    }

    /// Opens a socket for each worker, among which the kernel distributes connections.
    fn bind_each(address: SocketAddr, workers: usize) -> io::Result<(Vec<Self>, ListenAddress)> {
        let first = bind_tcp(address)?;
        // Port 0 stands for any; all sockets need the one that the first socket got.
        let address = first.local_addr()?;
        let mut sockets = vec![first];
        for _ in 1..workers {
            sockets.push(bind_tcp(address)?);
        }
        let own = |socket| Self { socket: OpenSocket::Tcp(socket), owner: Owner::Process };
        Ok((sockets.into_iter().map(own).collect(), ListenAddress::Tcp(address)))
    }

    /// Opens one socket, from which all workers accept.
    pub fn bind_shared(
        address: SocketAddr,
        workers: usize,
    ) -> io::Result<(Vec<Self>, ListenAddress)> {
        let socket = bind_tcp(address)?;
        let address = ListenAddress::Tcp(socket.local_addr()?);
        Ok((Self::share(&OpenSocket::Tcp(socket), &Owner::Process, workers)?, address))
    }

    /// Uses a socket of the service manager for each of `workers`.
    pub fn adopt(socket: &OpenSocket, workers: usize) -> io::Result<Vec<Self>> {
        Self::share(socket, &Owner::ServiceManager, workers)
    }

    /// Gives a Unix socket of this process its name. A socket of another process that has the name is
    /// replaced at once: at no moment is there none. Before that, no client finds it.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn publish(&self) -> io::Result<()> {
        match &self.owner {
            Owner::NamedByProcess(file) => file.publish(),
            Owner::Process | Owner::ServiceManager => Ok(()),
        }
    }

    /// The inode of the socket, if others can listen on its address.
    pub fn inode(&self) -> Option<u64> {
        self.socket.inode()
    }

    fn share(socket: &OpenSocket, owner: &Owner, workers: usize) -> io::Result<Vec<Self>> {
        let share = |_| Ok(Self { socket: socket.try_clone()?, owner: owner.clone() });
        (0..workers).map(share).collect()
    }

    /// Registers the socket with this worker's runtime.
    pub fn into_acceptor(self) -> io::Result<Acceptor> {
        let mut local = None;
        let socket = match self.socket {
            OpenSocket::Tcp(socket) => {
                local = socket.local_addr().ok().filter(|local| !local.ip().is_unspecified());
                // With Nagle's algorithm a response could wait for an acknowledgement. Accepted
                // connections inherit the option.
                let _ = SockRef::from(&socket).set_tcp_nodelay(true);
                Either::Left(Listening::new(socket)?)
            }
            OpenSocket::Unix(socket) => Either::Right(tokio::net::UnixListener::from_std(socket)?),
        };
        Ok(Acceptor { socket, local, owner: self.owner })
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

/// Binds a socket under a temporary name. It gets `path` when it is used.
fn bind_unix(path: &Path, mode: Option<u32>) -> io::Result<(UnixListener, SocketFile)> {
    if let Ok(found) = path.symlink_metadata() {
        let refused = |why| Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        if !is_socket(&found) {
            return refused("the file there is no socket");
        }
        if !may_replace(path, &found) {
            return refused("the socket there belongs to another user");
        }
    }
    let mut temporary = path.as_os_str().to_owned();
    // Processes in two containers may have one id.
    temporary.push(format!(".{:08x}", fastrand::u32(..)));
    let temporary = PathBuf::from(temporary);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&socket2::SockAddr::unix(&temporary)?)?;
    if let Some(mode) = mode {
        // No client can connect before the socket listens.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))?;
    }
    socket.listen(BACKLOG)?;
    let inode = fs::metadata(&temporary)?.ino();
    Ok((socket.into(), SocketFile { path: path.to_owned(), temporary, inode }))
}

/// Whether the system lets this process replace the file `found` at `path`: in a directory such as
/// `/tmp`, each user may replace only own files.
fn may_replace(path: &Path, found: &fs::Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    let user = geteuid();
    let directory = path.parent().and_then(|directory| directory.metadata().ok());
    directory.is_none_or(|it| {
        it.mode() & STICKY == 0
            || user.is_root()
            || [it.uid(), found.uid()].contains(&user.as_raw())
    })
}

fn is_socket(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_socket()
}

/// The name of a Unix socket. It is removed when the last handle of the socket closes,
/// unless another process has replaced it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The name before the socket is used.
    temporary: PathBuf,
    inode: u64,
}

impl SocketFile {
    fn publish(&self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }

    fn remove(&self) {
        for path in [&self.path, &self.temporary] {
            if fs::symlink_metadata(path).is_ok_and(|found| found.ino() == self.inode) {
                // If this fails, the next start replaces the file at `path`.
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A listening TCP socket whose connections enter no runtime.
///
/// The listener of tokio registers each connection that it accepts. Its stream waits for any
/// socket, and leaves the call of the system to its user.
#[derive(Debug)]
struct Listening(tokio::net::TcpStream);

impl Listening {
    fn new(socket: TcpListener) -> io::Result<Self> {
        tokio::net::TcpStream::from_std(OwnedFd::from(socket).into()).map(Self)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let accept = || platform::accept(&SockRef::from(&self.0));
            match self.0.try_io(Interest::READABLE, accept) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return Poll::Ready(accepted),
            }
        }
    }
}

/// A socket that is registered with a worker's runtime.
#[derive(Debug)]
pub struct Acceptor {
    socket: Either<Listening, tokio::net::UnixListener>,
    /// The address at which it accepts all connections, if it is one address.
    local: Option<SocketAddr>,
    owner: Owner,
}

impl Acceptor {
    /// Lets no new client connect; connections whose handshake has begun are still
    /// completed. Returns false if the socket is not owned by this process: later
    /// connections are then left to the next process.
    pub fn refuse_new_connections(&self) -> bool {
        match (&self.owner, &self.socket) {
            (Owner::ServiceManager, _) => return false,
            (Owner::NamedByProcess(file), _) => file.remove(),
            (Owner::Process, Either::Left(socket)) => {
                // If this fails, a client that connects at the last moment is reset.
                let _ = platform::refuse_new_connections(&SockRef::from(&socket.0));
            }
            (Owner::Process, Either::Right(_)) => {}
        }
        true
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// If the connection broke, or the process or the system has no resources left.
    pub async fn accept(&self) -> io::Result<(Transport, Peer)> {
        match &self.socket {
            Either::Left(socket) => {
                let (stream, address) = poll_fn(|cx| socket.poll_accept(cx)).await?;
                let local = self.local.map_or_else(|| stream.local_addr(), Ok)?;
                Ok((Either::Left(Tcp::new(stream)), Peer::new(address, local)))
            }
            Either::Right(socket) => {
                let (stream, _) = socket.accept().await?;
                let uid = stream.peer_cred().ok().map(|peer| peer.uid());
                let peer = Peer { uid, ..Peer::new(LOCAL_PEER, LOCAL_PEER) };
                Ok((Either::Right(stream), peer))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_has_the_address_that_it_has_reached() {
        for (any, reached) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.2")] {
            let any = ListenAddress::Tcp(any.parse().expect("an address"));
            let (mut sockets, address) = WorkerSocket::bind(&any, 1, None).expect("a port");
            let ListenAddress::Tcp(address) = address else { unreachable!("it is TCP") };
            let acceptor = sockets.remove(0).into_acceptor().expect("a runtime");
            let reached = SocketAddr::new(reached.parse().expect("an address"), address.port());
            let _client = std::net::TcpStream::connect(reached).expect("it listens");
            let (_, peer) = acceptor.accept().await.expect("a client");
            assert_eq!(peer.local, reached);
        }
    }

    #[tokio::test]
    async fn a_small_response_waits_for_no_acknowledgement() {
        let any = ListenAddress::Tcp("127.0.0.1:0".parse().expect("an address"));
        let (mut sockets, address) = WorkerSocket::bind(&any, 1, None).expect("a port");
        let ListenAddress::Tcp(address) = address else { unreachable!("it is TCP") };
        let acceptor = sockets.remove(0).into_acceptor().expect("a runtime");
        let _client = std::net::TcpStream::connect(address).expect("it listens");
        let (transport, _) = acceptor.accept().await.expect("a client");
        let Either::Left(stream) = transport else { unreachable!("it is TCP") };
        let stream = stream.into_unregistered().expect("a socket");
        assert!(stream.nodelay().expect("an option"));
    }
}
