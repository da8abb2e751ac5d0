//! Counts the bytes of a connection to an endpoint, below HTTP and above TLS.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::Transport;
use crate::io::poll_write_gathered;
use crate::proxy::limit::ConnectionPermit;
use crate::telemetry::UpstreamTraffic;

/// A stream whose bytes are counted. It keeps the permit of its connection.
#[derive(Debug)]
pub struct Counted<T> {
    stream: T,
    traffic: UpstreamTraffic,
    /// Is given back after the stream has been closed: fields are dropped in their order.
    _permit: Option<ConnectionPermit>,
}

impl<T> Counted<T> {
    pub fn new(stream: T, traffic: &UpstreamTraffic, permit: Option<ConnectionPermit>) -> Self {
        Self { stream, traffic: traffic.clone(), _permit: permit }
    }

    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.traffic.sent(*bytes);
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let known = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.traffic.received(buf.filled().len() - known);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write_gathered(&mut self.stream, cx, bufs);
        self.written(written)
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

impl<T: Transport> Transport for Counted<T> {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.socket()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::proxy::limit::{ConnectionLimit, ConnectionSettings};

    const ENDPOINT: u64 = 7;

    /// A stream that looks, when it is closed, whether a further connection may be opened.
    struct Looking {
        limit: Arc<ConnectionLimit>,
        has_permit: Rc<Cell<Option<bool>>>,
    }

    impl Drop for Looking {
        fn drop(&mut self) {
            self.has_permit.set(Some(self.limit.has_permit(ENDPOINT)));
        }
    }

    #[test]
    fn the_permit_is_given_back_after_the_stream_is_closed() {
        let queue_timeout = Duration::from_secs(1);
        let settings = ConnectionSettings { max: 1, queue_length: 1, queue_timeout };
        let limit = ConnectionLimit::new(settings);
        let has_permit = Rc::default();
        let stream = Looking { limit: Arc::clone(&limit), has_permit: Rc::clone(&has_permit) };
        let permit = limit.try_permit(ENDPOINT);
        drop(Counted::new(stream, &UpstreamTraffic::default(), permit));
        assert_eq!(has_permit.get(), Some(false));
        assert!(limit.has_permit(ENDPOINT));
    }
}
