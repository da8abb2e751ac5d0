//! The sockets that connections come in by: one for each worker.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};
use tokio_util::either::Either;

use super::stream::{ON_THIS_MACHINE, Transport};
use super::{ListenAddress, Peer};

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;

/// A socket that listens; connections wait in it until somebody accepts them.
#[derive(Debug)]
pub(super) enum BoundSocket {
    Tcp(TcpListener),
    Unix(UnixListener, Arc<SocketFile>),
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
                let mut sockets = vec![Self::Tcp(first)];
                for _ in 1..workers {
                    sockets.push(Self::Tcp(bind_tcp(address)?));
                }
                Ok((sockets, ListenAddress::Tcp(address)))
            }
            ListenAddress::Unix(path) => {
                let (socket, file) = bind_unix(path)?;
                let file = Arc::new(file);
                let sockets = (0..workers)
                    .map(|_| Ok(Self::Unix(socket.try_clone()?, Arc::clone(&file))))
                    .collect::<io::Result<_>>()?;
                Ok((sockets, address.clone()))
            }
        }
    }

    /// Ready to accept on this worker's runtime.
    pub(super) fn into_acceptor(self) -> io::Result<Acceptor> {
        Ok(match self {
            Self::Tcp(socket) => Acceptor::Tcp(tokio::net::TcpListener::from_std(socket)?),
            Self::Unix(socket, file) => {
                let socket = tokio::net::UnixListener::from_std(socket)?;
                Acceptor::Unix { socket, _file: file }
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

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // If it cannot be removed, the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket on a worker's runtime.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp(tokio::net::TcpListener),
    Unix {
        socket: tokio::net::UnixListener,
        /// Lasts as long as somebody accepts.
        _file: Arc<SocketFile>,
    },
}

impl Acceptor {
    /// The next connection.
    ///
    /// # Errors
    /// Those of the connection, or of a process that is out of something.
    pub(super) async fn accept(&self) -> io::Result<(Transport, Peer)> {
        let peer = |address, local| Peer { address, local, is_encrypted: false, identity: None };
        match self {
            Self::Tcp(socket) => {
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
