//! The fields that tell a backend about the client: `X-Forwarded-For`, `-Proto`, `-Host`,
//! `-Port`, `Forwarded` (RFC 7239) if it is configured, and `Via`.
//!
//! Such fields are dropped if they come from an untrusted peer, and kept and extended if
//! they come from a trusted proxy.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HOST, HeaderName, VIA};
use http::{HeaderMap, HeaderValue, Version};
use tollgate_core::request::push_address;

use super::write_field;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// What the lines of a connection take with a long IPv4 address.
const LINES_BYTES: usize = 96;

/// The fields for one client connection. They are made once, when it opens.
#[derive(Clone, Debug)]
pub struct Forwarding {
    address: IpAddr,
    scheme: &'static str,
    port: u16,
    /// The fields that are the same for all requests, as lines of HTTP/1.1.
    lines: Vec<u8>,
    /// Their values, when they have been needed.
    values: OnceCell<Values>,
}

#[derive(Clone, Debug)]
struct Values {
    peer: HeaderValue,
    port: HeaderValue,
}

impl Forwarding {
    /// For a connection from `peer` to the listener at `local`. A listener without a port
    /// has the default port.
    pub fn new(peer: SocketAddr, local: SocketAddr, is_encrypted: bool) -> Self {
        let address = peer.ip().to_canonical();
        let (scheme, usual_port) = if is_encrypted { ("https", 443) } else { ("http", 80) };
        let port = if local.port() == 0 { usual_port } else { local.port() };
        let mut lines = String::with_capacity(LINES_BYTES);
        lines.push_str("x-forwarded-for: ");
        push_address(&mut lines, address);
        lines.push_str("\r\nx-forwarded-proto: ");
        lines.push_str(scheme);
        lines.push_str("\r\nx-forwarded-port: ");
        lines.push_str(itoa::Buffer::new().format(port));
        lines.push_str("\r\n");
        let lines = lines.into_bytes();
        Self { address, scheme, port, lines, values: OnceCell::new() }
    }

    /// Whether a field with this name must be removed from a request of a peer that is not
    /// trusted.
    pub fn is_claim(name: &HeaderName) -> bool {
        let name = name.as_str();
        match name.strip_prefix("x-forwarded-") {
            Some(name) => matches!(name, "for" | "proto" | "host" | "port" | "prefix"),
            None => matches!(name, "forwarded" | "x-real-ip"),
        }
    }

    /// Writes the fields of a peer that is not trusted, and `Via`, into a request that was
    /// received with this HTTP version. [Claims](Self::is_claim) must have been removed from it.
    pub fn write_untrusted(&self, headers: &mut HeaderMap, version: Version) {
        self.replace(headers);
        Via::write(headers, version);
    }

    /// The same as lines of HTTP/1.1, for a request for `host`.
    pub fn write_lines(&self, host: Option<&HeaderValue>, version: Version, text: &mut Vec<u8>) {
        text.extend_from_slice(&self.lines);
        if let Some(host) = host {
            write_field(X_FORWARDED_HOST.as_str(), host.as_bytes(), text);
        }
        write_field(VIA.as_str(), Via::entry(version).as_bytes(), text);
    }

    /// Writes the fields into a request that will be forwarded; `Forwarded` only if
    /// `with_forwarded` is set. [Claims](Self::is_claim) must have been removed.
    pub fn write(&self, headers: &mut HeaderMap, peer_is_trusted: bool, with_forwarded: bool) {
        if peer_is_trusted {
            self.extend(headers);
        } else {
            self.replace(headers);
        }
        if with_forwarded {
            headers.append(FORWARDED, self.element(headers.get(HOST)));
        }
    }

    /// The gateway's own element of `Forwarded` (RFC 7239, section 4).
    fn element(&self, host: Option<&HeaderValue>) -> HeaderValue {
        // RFC 7239, section 6.
        let mut element = match self.address {
            IpAddr::V4(address) => format!("for={address};proto="),
            IpAddr::V6(address) => format!("for=\"[{address}]\";proto="),
        }
        .into_bytes();
        element.extend_from_slice(self.scheme.as_bytes());
        // Quoted, because a colon and a port are not part of a token. A host that would
        // need escapes is left out.
        let quotable = |host: &&HeaderValue| !host.as_bytes().iter().any(|b| b"\"\\".contains(b));
        if let Some(host) = host.filter(quotable) {
            element.extend(b";host=\"");
            element.extend(host.as_bytes());
            element.push(b'"');
        }
        HeaderValue::from_bytes(&element).expect("its parts are values of fields")
    }

    fn values(&self) -> &Values {
        self.values.get_or_init(|| {
            let mut peer = String::new();
            push_address(&mut peer, self.address);
            let peer = HeaderValue::try_from(peer).expect("an address is visible ASCII");
            Values { peer, port: self.port.into() }
        })
    }

    fn replace(&self, headers: &mut HeaderMap) {
        let Values { peer, port } = self.values();
        headers.insert(X_FORWARDED_FOR, peer.clone());
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(self.scheme));
        headers.insert(X_FORWARDED_PORT, port.clone());
        match headers.get(HOST).cloned() {
            Some(host) => headers.insert(X_FORWARDED_HOST, host),
            None => headers.remove(X_FORWARDED_HOST),
        };
    }

    fn extend(&self, headers: &mut HeaderMap) {
        let Values { peer, port } = self.values();
        headers.append(X_FORWARDED_FOR, peer.clone());
        let host = headers.get(HOST).cloned();
        let scheme = || HeaderValue::from_static(self.scheme);
        headers.entry(X_FORWARDED_PROTO).or_insert_with(scheme);
        headers.entry(X_FORWARDED_PORT).or_insert_with(|| port.clone());
        if let Some(host) = host {
            headers.entry(X_FORWARDED_HOST).or_insert(host);
        }
    }
}

/// The gateway's own entry in `Via` (RFC 9110, section 7.6.3).
#[derive(Clone, Copy, Debug)]
pub struct Via;

impl Via {
    /// Adds the entry for a message that was received with this HTTP version.
    pub fn write(headers: &mut HeaderMap, version: Version) {
        headers.append(VIA, HeaderValue::from_static(Self::entry(version)));
    }

    const fn entry(version: Version) -> &'static str {
        match version {
            Version::HTTP_10 => "1.0 tollgate",
            Version::HTTP_2 => "2.0 tollgate",
            _ => "1.1 tollgate",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{FieldFilter, strip_request};

    fn forwarding() -> Forwarding {
        let address = |text: &str| text.parse().expect("an address");
        Forwarding::new(address("[::ffff:192.0.2.7]:5000"), address("10.0.0.1:8080"), false)
    }

    fn spoofed() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("api.example.com"));
        headers.insert(X_FORWARDED_FOR, HeaderValue::from_static("203.0.113.9"));
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("https"));
        headers.insert(X_FORWARDED_HOST, HeaderValue::from_static("evil.example"));
        headers.insert("x-real-ip", HeaderValue::from_static("203.0.113.9"));
        headers.insert("x-forwarded-prefix", HeaderValue::from_static("//evil.example"));
        headers.insert(FORWARDED, HeaderValue::from_static("for=203.0.113.9"));
        headers
    }

    fn all(headers: &HeaderMap, name: HeaderName) -> Vec<&str> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    }

    #[test]
    fn fields_of_an_untrusted_peer_are_dropped() {
        let mut headers = spoofed();
        strip_request(&mut headers, &FieldFilter::default(), Forwarding::is_claim);
        forwarding().write(&mut headers, false, false);
        assert_eq!(all(&headers, X_FORWARDED_FOR), ["192.0.2.7"]);
        assert_eq!(all(&headers, X_FORWARDED_PROTO), ["http"]);
        assert_eq!(all(&headers, X_FORWARDED_HOST), ["api.example.com"]);
        assert_eq!(all(&headers, X_FORWARDED_PORT), ["8080"]);
        for gone in ["x-real-ip", "x-forwarded-prefix", "forwarded"] {
            assert!(!headers.contains_key(gone), "{gone}");
        }
    }

    #[test]
    fn fields_of_a_trusted_proxy_are_kept_and_extended() {
        let mut headers = spoofed();
        forwarding().write(&mut headers, true, false);
        assert_eq!(all(&headers, X_FORWARDED_FOR), ["203.0.113.9", "192.0.2.7"]);
        assert_eq!(all(&headers, X_FORWARDED_PROTO), ["https"]);
        assert_eq!(all(&headers, X_FORWARDED_HOST), ["evil.example"]);
        assert_eq!(all(&headers, X_FORWARDED_PORT), ["8080"]);
    }

    #[test]
    fn forwarded_is_written_if_configured_and_extends_only_trusted_values() {
        let mut headers = spoofed();
        strip_request(&mut headers, &FieldFilter::default(), Forwarding::is_claim);
        forwarding().write(&mut headers, false, true);
        let own = "for=192.0.2.7;proto=http;host=\"api.example.com\"";
        assert_eq!(all(&headers, FORWARDED), [own]);
        let mut headers = spoofed();
        forwarding().write(&mut headers, true, true);
        assert_eq!(all(&headers, FORWARDED), ["for=203.0.113.9", own]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("a\"b"));
        let address = |text: &str| text.parse().expect("an address");
        let forwarding =
            Forwarding::new(address("[2001:db8::7]:5000"), address("[::1]:8443"), true);
        forwarding.write(&mut headers, false, true);
        assert_eq!(all(&headers, FORWARDED), ["for=\"[2001:db8::7]\";proto=https"]);
    }

    proptest! {
        /// The lines of HTTP/1.1 say what the fields say.
        #[test]
        fn lines_and_fields_are_the_same(
            host in prop::option::of("[a-z]{1,10}(:[0-9]{1,5})?"),
            version in 0..3_usize,
            peer in any::<IpAddr>(),
            port in 0..3_u16,
            is_encrypted: bool,
            with_claims: bool,
        ) {
            let version = [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2][version];
            let host = host.map(|host| HeaderValue::try_from(host).unwrap());
            let mut headers = if with_claims { spoofed() } else { HeaderMap::new() };
            headers.remove(HOST);
            headers.extend(host.clone().map(|host| (HOST, host)));
            let forwarding =
                Forwarding::new((peer, 9).into(), ([10, 0, 0, 1], port).into(), is_encrypted);
            let mut text = Vec::new();
            forwarding.write_lines(host.as_ref(), version, &mut text);
            strip_request(&mut headers, &FieldFilter::default(), Forwarding::is_claim);
            let mut read = headers.clone();
            for line in str::from_utf8(&text).unwrap().split_terminator("\r\n") {
                let (name, value) = line.split_once(": ").expect("a field");
                let name: HeaderName = name.parse().unwrap();
                prop_assert_eq!(read.insert(name, value.parse().unwrap()), None);
            }
            forwarding.write_untrusted(&mut headers, version);
            prop_assert_eq!(read, headers);
        }
    }

    #[test]
    fn via_is_appended() {
        let mut headers = HeaderMap::new();
        headers.insert(VIA, HeaderValue::from_static("1.1 cdn"));
        Via::write(&mut headers, Version::HTTP_11);
        assert_eq!(all(&headers, VIA), ["1.1 cdn", "1.1 tollgate"]);
    }
}
