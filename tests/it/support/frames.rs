//! A client of HTTP/2 over plain TCP, which sends the frames of a test byte by byte.
//!
//! Its heads are literals without an index (RFC 7541, section 6.2.2), so that a test needs
//! no library for them.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::PATIENCE;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113, section 6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags of frames.
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Settings (RFC 9113, section 6.5.2).
pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// Codes of errors (RFC 9113, section 7).
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 3;
pub(crate) const FRAME_SIZE_ERROR: u32 = 6;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// The outcome of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A response with this status.
    Status(u16),
    /// The stream is reset with this code.
    Reset(u32),
    /// The connection ends with a GOAWAY of this code.
    GoAway(u32),
    /// The connection ends without a GOAWAY.
    Closed,
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A SETTINGS frame.
pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let pair =
        |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
    frame(SETTINGS, 0, 0, &settings.iter().flat_map(pair).collect::<Vec<_>>())
}

/// A block of fields.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(&mut block, name);
        string(&mut block, value);
    }
    block
}

/// A string without Huffman's code (RFC 7541, sections 5.1 and 5.2).
fn string(block: &mut Vec<u8>, text: &str) {
    match text.len() {
        short @ ..127 => block.push(u8::try_from(short).expect("it is below 127")),
        long => {
            block.push(127);
            let mut rest = long - 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).expect("a remainder") | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).expect("it is below 128"));
        }
    }
    block.extend(text.as_bytes());
}

/// A head that fits one frame and ends its stream or not.
pub(crate) fn head(stream: u32, fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
    let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
    frame(HEADERS, flags, stream, &block(fields))
}

/// `GET` of a path, whole.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", path)];
    head(stream, &fields, true)
}

/// A whole response with status 200 and no body.
pub(crate) fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88])
}

/// The same with a head that unpacks to 180 KB.
pub(crate) fn too_large(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[&[0x88][..], &repeated(60)].concat())
}

/// A block with this number of equal fields of 3 KB: one is put into the table, and then repeated
/// (RFC 7541, sections 5.1, 6.1 and 6.2.1).
pub(crate) fn repeated(count: usize) -> Vec<u8> {
    const LENGTH: [u8; 3] = [127, 0x80 | 57, 22];
    let field = [&[0x40, 1, b'x'][..], &LENGTH, &[b'x'; 3000]].concat();
    [field, vec![0xbe; count - 1]].concat()
}

/// WINDOW_UPDATE of a stream and of its connection.
pub(crate) fn more(stream: u32, bytes: u32) -> Vec<u8> {
    [stream, 0].map(|of| frame(WINDOW_UPDATE, 0, of, &bytes.to_be_bytes())).concat()
}

/// RST_STREAM.
pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// GOAWAY: streams above `last` were not processed.
pub(crate) fn go_away(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// One connection to a gateway.
pub(crate) struct Frames {
    stream: BufReader<TcpStream>,
}

impl Frames {
    /// A connection on which no bytes were sent.
    pub(crate) fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway accepts connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("it is a socket");
        stream.set_nodelay(true).expect("it is a socket");
        Self { stream: BufReader::new(stream) }
    }

    /// A connection that has begun with the preface and SETTINGS.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::with_settings(address, &[])
    }

    /// The same with these settings. The gateway may not index the fields that it sends, so
    /// that each head can be read without the heads before it.
    pub(crate) fn with_settings(address: SocketAddr, own: &[(u16, u32)]) -> Self {
        let mut connection = Self::silent(address);
        let all = [&[(HEADER_TABLE_SIZE, 0)], own].concat();
        connection.send(&[PREFACE, &settings(&all)].concat());
        connection
    }

    /// The other side of a connection: an endpoint that the gateway has connected.
    pub(crate) fn accepted(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut connection = Self { stream: BufReader::new(stream) };
        connection.stream.read_exact(&mut [0; PREFACE.len()])?;
        connection.send(&[settings(&[]), frame(SETTINGS, ACK, 0, &[])].concat());
        Ok(connection)
    }

    /// Lets the system hold about so many bytes that are not read.
    pub(crate) fn limit_unread(&self, bytes: usize) {
        set_socket_recv_buffer_size(self.stream.get_ref(), bytes).expect("it is a socket");
    }

    /// Sends exactly these bytes. Returns false if the gateway does not accept them any more.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// The next frame; none if the connection has ended.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        let mut header = [0; 9];
        match self.stream.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => return Ok(None),
        }
        let [high, middle, low, kind, flags, stream @ ..] = header;
        let mut payload =
            vec![0; usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)];
        self.stream.read_exact(&mut payload)?;
        Ok(Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload }))
    }

    /// The outcome of a stream, or of the connection if that ends first.
    pub(crate) fn outcome(&mut self, stream: u32) -> Outcome {
        while let Some(frame) = self.next().expect("the gateway says something in time") {
            match frame.kind {
                HEADERS if frame.stream == stream => return Outcome::Status(frame.status()),
                RST_STREAM if frame.stream == stream => return Outcome::Reset(frame.number(0)),
                GOAWAY => return Outcome::GoAway(frame.number(4)),
                _ => {}
            }
        }
        Outcome::Closed
    }

    /// Reads until the connection ends. Returns whether it does.
    pub(crate) fn ends(&mut self) -> bool {
        loop {
            match self.next() {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }
}

impl Frame {
    /// Whether it is the last of its stream.
    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// Whether it resets a stream with this code.
    pub(crate) fn resets(&self, code: u32) -> bool {
        self.kind == RST_STREAM && self.number(0) == code
    }

    /// Four bytes of the payload as a number.
    fn number(&self, at: usize) -> u32 {
        let bytes = self.payload[at..at + 4].try_into().expect("there are four");
        u32::from_be_bytes(bytes)
    }

    /// The status in a head of a response, whose first field it is.
    pub(crate) fn status(&self) -> u16 {
        const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
        // Before it there may be changes of the table's size.
        let mut block = &self.payload[..];
        while block[0] & 0xe0 == 0x20 {
            block = &block[1..];
        }
        match block[0] {
            index @ 0x88..=0x8e => INDEXED[usize::from(index - 0x88)],
            _ if block[1] & 0x80 == 0 => std::str::from_utf8(&block[2..5])
                .ok()
                .and_then(|text| text.parse().ok())
                .expect("a status"),
            _ => digits(&block[2..][..usize::from(block[1] & 0x7f)]),
        }
    }
}

/// Three digits in Huffman's code (RFC 7541, appendix B): 0 to 2 have five bits,
/// the others six.
fn digits(coded: &[u8]) -> u16 {
    let bits: Vec<u8> =
        coded.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let take = |at: usize, count: usize| bits[at..at + count].iter().fold(0, |n, bit| n << 1 | bit);
    let mut at = 0;
    (0..3).fold(0, |status, _| {
        let short = take(at, 5);
        let digit = if short <= 2 { short } else { take(at, 6) - 0b01_1001 + 3 };
        at += if short <= 2 { 5 } else { 6 };
        status * 10 + u16::from(digit)
    })
}
