//! TCP connections that enter the runtime when they first have to wait.
//!
//! To wait for a connection, the runtime has to register it with the system, and to remove it
//! again at its end: two calls of the system, and memory. A client that opens a connection for
//! each request mostly sends the request at once, and the response finds room. So such a
//! connection needs neither.

use std::io::{self, IoSlice, Write as _};
use std::mem::{self, MaybeUninit};
use std::net::TcpStream as Unregistered;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The most bytes that are read before a connection is registered or its protocol is known, at
/// once.
pub const MAX_AT_ONCE: usize = 4 * 1024;

/// A TCP connection.
#[derive(Debug)]
pub struct Tcp(State);

#[derive(Debug)]
enum State {
    Unregistered {
        socket: Unregistered,
        /// Whether the last read has taken all that had arrived.
        is_drained: bool,
    },
    Registered(TcpStream),
    /// It could not be registered, and is closed.
    Failed,
}

impl Tcp {
    /// For a socket that does not block.
    pub const fn new(socket: Unregistered) -> Self {
        Self(State::Unregistered { socket, is_drained: false })
    }

    /// The socket, outside of the runtime.
    ///
    /// # Errors
    /// If the runtime cannot release it. It is then closed.
    pub fn into_unregistered(self) -> io::Result<Unregistered> {
        match self.0 {
            State::Unregistered { socket, .. } => Ok(socket),
            State::Registered(socket) => socket.into_std(),
            State::Failed => Err(failed()),
        }
    }

    /// Returns when there may be something to read, or the stream has ended. At once if the
    /// connection has never waited.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.0 {
            State::Unregistered { .. } => Ok(()),
            State::Registered(socket) => socket.readable().await,
            State::Failed => Err(failed()),
        }
    }

    /// Lets the close of the connection reset it.
    ///
    /// # Errors
    /// If the system refuses that.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        let socket = match &self.0 {
            State::Unregistered { socket, .. } => SockRef::from(socket),
            State::Registered(socket) => SockRef::from(socket),
            State::Failed => return Err(failed()),
        };
        socket.set_linger(Some(std::time::Duration::ZERO))
    }

    /// The socket in the runtime, which registers it now if it has not yet.
    ///
    /// # Errors
    /// If it cannot be registered. The connection is then closed.
    fn registered(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let State::Unregistered { .. } = self.0
            && let State::Unregistered { socket, .. } = mem::replace(&mut self.0, State::Failed)
        {
            self.0 = State::Registered(TcpStream::from_std(socket)?);
        }
        match &mut self.0 {
            State::Registered(socket) => Ok(Pin::new(socket)),
            _ => Err(failed()),
        }
    }

    /// Reads what has arrived. None: the connection has to wait, or is registered.
    fn read_now(&mut self, buf: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let State::Unregistered { socket, is_drained } = &mut self.0 else { return None };
        if *is_drained {
            return None;
        }
        let mut room = [MaybeUninit::uninit(); MAX_AT_ONCE];
        let most = buf.remaining().min(MAX_AT_ONCE);
        let count = now(|| {
            let ((bytes, _), count) = recv(&*socket, &mut room[..most], RecvFlags::empty())?;
            buf.put_slice(bytes);
            Ok(count)
        })?;
        // After a part, a further read would only show that there is nothing more.
        Some(count.map(|count| *is_drained = 0 < count && count < most))
    }

    /// Performs an operation that does not block. None: the connection has to wait, or is
    /// registered.
    fn write_now<T>(
        &self,
        mut operation: impl FnMut(&Unregistered) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let State::Unregistered { socket, .. } = &self.0 else { return None };
        now(|| operation(socket))
    }
}

/// The result of an operation that does not block. None: it would have to wait.
fn now<T>(mut operation: impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            result => return Some(result),
        }
    }
}

fn failed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection could not enter the runtime")
}

impl AsyncRead for Tcp {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tcp = self.get_mut();
        match tcp.read_now(buf) {
            Some(read) => Poll::Ready(read),
            None => tcp.registered()?.poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tcp = self.get_mut();
        match tcp.write_now(|mut socket| socket.write(buf)) {
            Some(written) => Poll::Ready(written),
            None => tcp.registered()?.poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tcp = self.get_mut();
        match tcp.write_now(|mut socket| socket.write_vectored(bufs)) {
            Some(written) => Poll::Ready(written),
            None => tcp.registered()?.poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Everything that was written is with the system.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tcp = self.get_mut();
        match tcp.write_now(|socket| socket.shutdown(std::net::Shutdown::Write)) {
            Some(shut) => Poll::Ready(shut),
            None => tcp.registered()?.poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    impl Tcp {
        fn is_registered(&self) -> bool {
            matches!(self.0, State::Registered(_))
        }
    }

    /// A connection, and its client.
    fn pair() -> (Tcp, Unregistered) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Unregistered::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        (Tcp::new(socket), client)
    }

    #[tokio::test]
    async fn a_connection_that_never_waits_is_not_registered() {
        let (mut tcp, mut client) = pair();
        client.write_all(b"request").unwrap();
        let mut request = [0; 64];
        assert_eq!(tcp.read(&mut request).await.unwrap(), 7);
        tcp.write_all(b"response").await.unwrap();
        tcp.shutdown().await.unwrap();
        assert!(!tcp.is_registered());
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert_eq!((&request[..7], &*response), (&b"request"[..], "response"));
    }

    #[tokio::test]
    async fn a_read_that_has_to_wait_is_woken() {
        let (mut tcp, mut client) = pair();
        let mut byte = [0; 8];
        for text in [b"first", b"other"] {
            let waits = timeout(Duration::from_millis(20), tcp.read(&mut byte)).await;
            assert!(waits.is_err() && tcp.is_registered());
            client.write_all(text).unwrap();
            assert_eq!(tcp.read(&mut byte).await.unwrap(), 5);
        }
        drop(client);
        assert_eq!(tcp.read(&mut byte).await.unwrap(), 0);
    }

    /// What arrives between a read and the registration would otherwise wake no task.
    #[tokio::test]
    async fn bytes_that_arrive_before_the_registration_are_read() {
        let (mut tcp, mut client) = pair();
        client.write_all(b"one").unwrap();
        let mut bytes = [0; 64];
        assert_eq!(tcp.read(&mut bytes).await.unwrap(), 3);
        client.write_all(b"two").unwrap();
        assert_eq!(tcp.read(&mut bytes).await.unwrap(), 3);
        assert_eq!(&bytes[..3], b"two");
    }

    #[tokio::test]
    async fn a_write_that_has_to_wait_is_woken() {
        let (mut tcp, mut client) = pair();
        let written = vec![7; 16 * 1024 * 1024];
        let reading = std::thread::spawn(move || {
            let mut read = Vec::new();
            client.read_to_end(&mut read).map(|_| read)
        });
        tcp.write_all(&written).await.unwrap();
        assert!(tcp.is_registered());
        drop(tcp);
        assert!(reading.join().unwrap().unwrap() == written);
    }

    #[tokio::test]
    async fn a_reset_is_an_error_of_the_next_read() {
        let (mut tcp, client) = pair();
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        yield_now().await;
        let error = tcp.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever is sent and read in pieces of these lengths arrives once and in its order.
        #[test]
        fn pieces_of_any_length_arrive(
            pieces in prop::collection::vec((0..6000_usize, 1..6000_usize), 1..8),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (sent, received) = runtime.block_on(async {
                let (mut tcp, mut client) = pair();
                let mut sent = Vec::new();
                let mut received = Vec::new();
                for (index, &(sends, reads)) in pieces.iter().enumerate() {
                    let piece = vec![u8::try_from(index).unwrap(); sends];
                    client.write_all(&piece).unwrap();
                    sent.extend(piece);
                    let mut room = vec![0; reads];
                    if received.len() < sent.len() {
                        let count = tcp.read(&mut room).await.unwrap();
                        received.extend_from_slice(&room[..count]);
                    }
                }
                drop(client);
                tcp.read_to_end(&mut received).await.unwrap();
                (sent, received)
            });
            prop_assert!(sent == received);
        }
    }
}
