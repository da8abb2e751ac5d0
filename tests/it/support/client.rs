//! A client: one connection, and the bytes that a test sends on it.

use std::io::{self, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::response::read_chunk;
use super::{PATIENCE, Response};

/// One connection to a gateway.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the gateway accepts connections")
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// `GET` with fields written as `Name: value`.
    pub(crate) fn get(&mut self, path: &str, fields: &[&str]) -> Response {
        self.request("GET", path, fields, b"")
    }

    /// A request with `Host` and, if there is a body, `Content-Length`.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &[u8],
    ) -> Response {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: gateway.test\r\n");
        for field in fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes());
        self.send(body);
        self.response(method)
    }

    /// Sends exactly these bytes, in one piece if the system accepts them. The other side
    /// may have closed already.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.try_send(bytes);
    }

    /// The same, but the other side must not have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The response to a request of `method`, which must come.
    pub(crate) fn response(&mut self, method: &str) -> Response {
        self.try_response(method).expect("a whole response").expect("a response")
    }

    pub(crate) fn try_response(&mut self, method: &str) -> io::Result<Option<Response>> {
        Response::read(&mut self.stream, method)
    }

    /// The head of a response whose body is read by [`Self::chunk`].
    pub(crate) fn head(&mut self) -> Response {
        Response::read_head(&mut self.stream).expect("a whole head").expect("a response")
    }

    /// The next chunk of a chunked body. An error if the body is incomplete.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        read_chunk(&mut self.stream)
    }

    /// The next `count` bytes.
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("so many bytes");
        bytes
    }

    /// Closes one or both directions of the connection.
    pub(crate) fn shutdown(&mut self, how: Shutdown) {
        self.stream.get_mut().shutdown(how).expect("the connection is open");
    }

    /// All bytes until the connection ends in any way. Fails if it stays open.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let ended = self.stream.read_to_end(&mut rest);
        let is_open = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!is_open, "it is not closed, after {:?}", String::from_utf8_lossy(&rest));
        rest
    }

    /// Closes the sending direction. The client can still read.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.get_mut().shutdown(Shutdown::Write);
    }

    /// Whether the gateway closes the connection without a reset.
    pub(crate) fn is_closed_in_order(&mut self) -> bool {
        self.stream.read(&mut [0; 1]).is_ok_and(|count| count == 0)
    }

    /// Whether the gateway has closed the connection, with nothing more to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}
