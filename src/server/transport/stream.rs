//! The bytes of a connection: over TCP or a Unix socket, plain or with TLS.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::tcp::{MAX_AT_ONCE, Tcp};
use crate::io::poll_write_gathered;

/// A connection as the kernel provides it.
pub type Transport = Either<Tcp, UnixStream>;

/// A stream that carries HTTP. Boxed with TLS, so that other connections reserve no memory for
/// it.
pub type Stream = Either<Socket, Box<TlsStream<Socket>>>;

/// The address of both ends of a Unix socket: they are on this machine.
pub const LOCAL_PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A transport, with the bytes that were read ahead to detect a protocol.
#[derive(Debug)]
pub struct Socket {
    transport: Transport,
    ahead: Vec<u8>,
}

impl Socket {
    pub fn new(transport: Transport) -> Self {
        Self { transport, ahead: Vec::new() }
    }

    /// The bytes that were read ahead.
    pub fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    /// Removes the first `count` bytes that were read ahead.
    pub fn consume(&mut self, count: usize) {
        self.ahead.drain(..count);
    }

    /// Returns when there may be something to read, or the stream has ended.
    pub async fn readable(&self) {
        if self.ahead.is_empty() {
            // An error ends the stream: the next read returns it.
            let _ = match &self.transport {
                Either::Left(tcp) => tcp.readable().await,
                Either::Right(unix) => unix.readable().await,
            };
        }
    }

    /// Reads at most `most` further bytes ahead, and at most [`MAX_AT_ONCE`]. Returns false at the
    /// end of the stream.
    pub async fn read_ahead(&mut self, most: usize) -> io::Result<bool> {
        poll_fn(|cx| self.poll_read_ahead(most, cx)).await
    }

    /// The bytes are on the stack until they are there: a client that sends nothing costs no
    /// memory.
    fn poll_read_ahead(&mut self, most: usize, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut room = [MaybeUninit::uninit(); MAX_AT_ONCE];
        let mut buf = ReadBuf::uninit(&mut room[..most.min(MAX_AT_ONCE)]);
        ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
        self.ahead.extend_from_slice(buf.filled());
        Poll::Ready(Ok(!buf.filled().is_empty()))
    }
}

/// The socket below TLS, if there is TLS.
pub fn socket(stream: &Stream) -> &Socket {
    match stream {
        Either::Left(socket) => socket,
        Either::Right(tls) => tls.get_ref().0,
    }
}

/// Resets a connection, so that the client does not take a part of a response for the
/// whole: in HTTP/1.0 a body may end with its connection.
pub fn reset(stream: &Stream) {
    if let Either::Left(tcp) = &socket(stream).transport {
        // If this fails, the connection closes without a reset.
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
        poll_write_gathered(&mut self.transport, cx, bufs)
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
