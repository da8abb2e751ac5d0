//! The PROXY protocol, versions 1 and 2: a header in which a load balancer names the
//! client of a connection, before the first byte of the connection itself.
//!
//! It is accepted from trusted peers only, and required from them. If the gateway guessed
//! whether a connection begins with such a header, any client could choose its own
//! address (PROXY protocol, section 2).

use std::net::{IpAddr, SocketAddr};

use ppp::{HeaderResult, PartialResult as _, v1, v2};

use super::stream::Socket;

/// The longest header of version 2 that is accepted, with its extensions.
const MAX_BYTES: usize = 4 * 1024;
/// The longest header of version 1.
const MAX_TEXT_BYTES: usize = 107;

/// The addresses of a connection that a load balancer passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    pub client: SocketAddr,
    pub local: SocketAddr,
}

/// Why a connection does not begin with a valid header.
#[derive(Debug, thiserror::Error)]
pub enum ProxyProtocolError {
    #[error("the connection does not begin with a header of the PROXY protocol")]
    Malformed,
    #[error("the header of the PROXY protocol is longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the connection ended within the header of the PROXY protocol")]
    Ended,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Reads the header, and nothing after it. None: the load balancer opened the connection
/// for itself, as in a health check, or does not name a client.
pub async fn read(socket: &mut Socket) -> Result<Option<ProxiedAddresses>, ProxyProtocolError> {
    loop {
        if let Some((addresses, bytes)) = parse(socket.ahead())? {
            socket.consume(bytes);
            return Ok(addresses);
        }
        let room = MAX_BYTES.saturating_sub(socket.ahead().len());
        if room == 0 {
            return Err(ProxyProtocolError::TooLong);
        }
        if !socket.read_ahead(room).await? {
            return Err(ProxyProtocolError::Ended);
        }
    }
}

/// The addresses and the length of the header; None while it is incomplete.
pub fn parse(
    bytes: &[u8],
) -> Result<Option<(Option<ProxiedAddresses>, usize)>, ProxyProtocolError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = match bytes[0] {
        b'P' => match line(bytes)? {
            Some(line) => line,
            None => return Ok(None),
        },
        _ => bytes,
    };
    let header = HeaderResult::parse(bytes);
    if header.is_incomplete() {
        return Ok(None);
    }
    match header {
        HeaderResult::V1(Ok(header)) => Ok(Some((of_text(&header), header.header.len()))),
        HeaderResult::V2(Ok(header)) => Ok(Some((of_binary(&header), header.header.len()))),
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => Err(ProxyProtocolError::Malformed),
    }
}

/// The line at the start of `bytes`; None while it is incomplete. The parser gets only
/// this line, because it would look for the end in what follows.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, ProxyProtocolError> {
    let start = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    match start.iter().position(|byte| *byte == b'\n') {
        Some(end) if start[..end].ends_with(b"\r") => Ok(Some(&bytes[..=end])),
        None if start.len() < MAX_TEXT_BYTES => Ok(None),
        _ => Err(ProxyProtocolError::Malformed),
    }
}

fn of_text(header: &v1::Header<'_>) -> Option<ProxiedAddresses> {
    match header.addresses {
        v1::Addresses::Unknown => None,
        v1::Addresses::Tcp4(it) => Some(ProxiedAddresses::new(
            (it.source_address, it.source_port),
            (it.destination_address, it.destination_port),
        )),
        v1::Addresses::Tcp6(it) => Some(ProxiedAddresses::new(
            (it.source_address, it.source_port),
            (it.destination_address, it.destination_port),
        )),
    }
}

fn of_binary(header: &v2::Header<'_>) -> Option<ProxiedAddresses> {
    if header.command == v2::Command::Local {
        return None;
    }
    match header.addresses {
        v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
        v2::Addresses::IPv4(it) => Some(ProxiedAddresses::new(
            (it.source_address, it.source_port),
            (it.destination_address, it.destination_port),
        )),
        v2::Addresses::IPv6(it) => Some(ProxiedAddresses::new(
            (it.source_address, it.source_port),
            (it.destination_address, it.destination_port),
        )),
    }
}

impl ProxiedAddresses {
    fn new<A: Into<IpAddr>>(client: (A, u16), local: (A, u16)) -> Self {
        Self { client: client.into(), local: local.into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Version 2, PROXY, TCP over IPv4, with `extra` bytes behind the addresses.
    fn binary(command: u8, extra: &[u8]) -> Vec<u8> {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([command, 0x11]);
        header.extend(u16::try_from(12 + extra.len()).unwrap().to_be_bytes());
        header.extend([192, 0, 2, 7, 10, 0, 0, 1, 0x13, 0x88, 0x01, 0xbb]);
        header.extend(extra);
        header
    }

    fn addresses() -> ProxiedAddresses {
        ProxiedAddresses::new(([192, 0, 2, 7], 5000), ([10, 0, 0, 1], 443))
    }

    #[test]
    fn both_versions_name_the_addresses() {
        let text = b"PROXY TCP4 192.0.2.7 10.0.0.1 5000 443\r\nGET /";
        assert_eq!(parse(text).unwrap(), Some((Some(addresses()), text.len() - 5)));
        let six = b"PROXY TCP6 2001:db8::7 2001:db8::1 5000 443\r\n";
        let (of_six, _) = parse(six).unwrap().unwrap();
        assert_eq!(of_six.unwrap().client, "[2001:db8::7]:5000".parse().unwrap());
        let header = binary(0x21, b"\x04\0\x01\0");
        let with_body = [&header[..], b"GET /"].concat();
        assert_eq!(parse(&with_body).unwrap(), Some((Some(addresses()), header.len())));
    }

    #[test]
    fn a_load_balancer_may_connect_for_itself() {
        assert_eq!(parse(&binary(0x20, b"")).unwrap(), Some((None, 28)));
        assert_eq!(parse(b"PROXY UNKNOWN\r\n").unwrap(), Some((None, 15)));
    }

    #[test]
    fn other_bytes_are_refused() {
        for bad in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"PROXY TCP4 1.2.3 10.0.0.1 5000 443\r\n",
            b"PROXY TCP4 1.2.3.4 10.0.0.1 5000 443 \r\n",
            b"PROXY TCP4 1.2.3.4 10.0.0.1 500000 443\r\n",
            b"PROXY TCP4 ::1 ::1 1 2\r\n",
            b"PROXY UNKNOWN \n192.0.2.1\r\n",
            b"PROXY UNKNOWN\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS\r\n",
            &binary(0x31, b""),
            &binary(0x22, b""),
        ] {
            assert!(matches!(parse(bad), Err(ProxyProtocolError::Malformed)), "{bad:?}");
        }
        let endless = [b'P'; 200];
        assert!(parse(&endless).is_err(), "a line has an end");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn an_incomplete_header_is_no_error(at in 1_usize..40) {
            let text = b"PROXY TCP4 192.0.2.7 10.0.0.1 5000 443\r\n";
            prop_assert!(matches!(parse(&text[..at.min(text.len() - 1)]), Ok(None)));
            let header = binary(0x21, b"\x04\0\x0b01234567890");
            prop_assert!(matches!(parse(&header[..at.min(header.len() - 1)]), Ok(None)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
            let text = [b"PROXY ", &bytes[..]].concat();
            let _ = parse(&text);
            let _ = parse(&[&binary(0x21, b"")[..14], &bytes[..]].concat());
        }
    }
}
