//! Whether a server speaks the protocol of Redis, by the first byte that it sends.
//!
//! redis-rs loses the error of a reply that it cannot read if other replies are awaited with it:
//! what remains is that the connection has closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::Stream;

/// The bytes with which replies begin
/// ([RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/), versions 2 and 3).
const REPLIES: &[u8] = b"+-:$*_#,(!=%|~>";

/// A stream that notes whether its first byte begins no reply of Redis.
pub(super) struct FirstByte {
    stream: Box<dyn Stream>,
    has_begun: bool,
    is_foreign: IsForeign,
}

/// Whether the first byte of a stream begins no reply of Redis.
#[derive(Clone, Debug, Default)]
pub(super) struct IsForeign(Arc<AtomicBool>);

impl IsForeign {
    /// Whether such a byte was read.
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl FirstByte {
    /// Notes the first byte of `stream`. Nothing was read from it before.
    pub(super) fn of(stream: Box<dyn Stream>) -> Self {
        Self { stream, has_begun: false, is_foreign: IsForeign::default() }
    }

    /// Whether the first byte begins no reply of Redis.
    pub(super) fn is_foreign(&self) -> IsForeign {
        self.is_foreign.clone()
    }
}

impl AsyncRead for FirstByte {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if !this.has_begun
            && let Some(first) = buffer.filled().get(before)
        {
            this.has_begun = true;
            this.is_foreign.0.store(!REPLIES.contains(first), Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FirstByte {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn only_the_first_byte_is_looked_at() {
        for (sent, is_foreign) in [
            ("+OK\r\nHTTP", false),
            ("-NOAUTH Authentication required.\r\n", false),
            ("HTTP/1.1 400 Bad Request\r\n", true),
            ("\u{15}\u{3}", true),
            ("", false),
        ] {
            let (near, mut far) = duplex(64);
            let mut stream = FirstByte::of(Box::new(near));
            let seen = stream.is_foreign();
            far.write_all(sent.as_bytes()).await.unwrap();
            drop(far);
            let mut read = String::new();
            stream.read_to_string(&mut read).await.unwrap();
            assert_eq!((&*read, seen.get()), (sent, is_foreign));
        }
    }
}
