//! A connection's bytes, whatever they travel on: TCP or a Unix socket, plain
//! or under TLS.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// What the kernel gives us.
pub(super) type Transport = Either<TcpStream, UnixStream>;

/// What HTTP is spoken over.
pub(super) type Stream = Either<Socket, TlsStream<Socket>>;

/// Whoever comes over a Unix socket is on this machine.
pub(super) const ON_THIS_MACHINE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A transport, and what was read of it before it was known what for.
#[derive(Debug)]
pub(super) struct Socket {
    transport: Transport,
    ahead: Vec<u8>,
}

impl Socket {
    pub(super) fn new(transport: Transport) -> Self {
        Self { transport, ahead: Vec::new() }
    }

    /// What was read ahead.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    /// Forgets the first `count` bytes of what was read ahead: they have been understood.
    pub(super) fn consume(&mut self, count: usize) {
        self.ahead.drain(..count);
    }

    /// Reads at most `most` bytes more ahead. False: there are none, nor will be.
    pub(super) async fn read_ahead(&mut self, most: usize) -> io::Result<bool> {
        let mut limited = (&mut self.transport).take(u64::try_from(most).unwrap_or(u64::MAX));
        Ok(limited.read_buf(&mut self.ahead).await? > 0)
    }
}

/// Closes so that what came of a response is not taken for the whole: in
/// HTTP/1.0 a body may end with its connection.
pub(super) fn reset(stream: &Stream) {
    let socket = match stream {
        Either::Left(socket) => socket,
        Either::Right(tls) => tls.get_ref().0,
    };
    if let Either::Left(tcp) = &socket.transport {
        // The connection closes in any case.
        let _ = tcp.set_zero_linger();
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.transport).poll_read(cx, buf);
        }
        let count = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..count]);
        self.consume(count);
        if self.ahead.is_empty() {
            self.ahead = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
