//! The bytes of a connection to an endpoint: over TCP or a Unix socket, plain or with TLS.

use std::fmt::Debug;
use std::os::fd::{AsFd as _, BorrowedFd};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// What can carry HTTP.
pub trait Transport: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static {
    /// The socket, below TLS. None: a test has none.
    fn socket(&self) -> Option<BorrowedFd<'_>>;
}

/// A stream of any kind.
pub type Stream = Box<dyn Transport>;

impl Transport for TcpStream {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Transport for UnixStream {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl<T: Transport> Transport for TlsStream<T> {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.get_ref().0.socket()
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Transport for tokio::io::DuplexStream {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
