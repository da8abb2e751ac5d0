//! `listeners`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::List;
use crate::config::field::{Either, Field};
use crate::config::scalar::{ListenAddress, Period, Size};

/// An address to listen on, and the bounds of its connections.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "listener")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawListener {
    /// IP address and port, or a Unix socket; the same may appear once.
    pub(in crate::config) address: Field<ListenAddress>,
    /// Encrypted connections. Default: plain ones.
    #[serde(default)]
    pub(in crate::config) tls: Field<RawListenerTls>,
    /// true: connections begin with a header of the PROXY protocol, version 1 or 2, and only
    /// `trusted_proxies` may connect. Default: false.
    #[serde(default)]
    pub(in crate::config) proxy_protocol: Field<bool>,
    /// HTTP/2 besides HTTP/1: true, false, or its bounds. Default: true.
    #[serde(default)]
    pub(in crate::config) http2: Field<Either<bool, RawHttp2>>,
    /// Connections open at once. Default: 10000.
    #[serde(default)]
    pub(in crate::config) max_connections: Field<u64>,
    /// How long a client may take.
    #[serde(default)]
    pub(in crate::config) timeouts: Field<RawListenerTimeouts>,
    /// Bytes in a second that a client must read of a response, or send of a body with a
    /// Content-Length, averaged over `timeouts.request_body` of the time for which it is waited
    /// for. 0: any. Default: 100.
    #[serde(default)]
    pub(in crate::config) min_rate: Field<Size>,
    /// Request line and header fields together. Default: 32KiB.
    #[serde(default)]
    pub(in crate::config) max_head_size: Field<Size>,
    /// The target in the request line. Default and at most: 65534.
    #[serde(default)]
    pub(in crate::config) max_target_size: Field<Size>,
    /// Header fields of one request. Default: 100.
    #[serde(default)]
    pub(in crate::config) max_headers: Field<u64>,
}

/// Certificates, and whether clients must have one too. Paths of files in PEM.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "listener tls")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawListenerTls {
    /// Chosen by the name that a client asks for; the first is for all other clients.
    #[serde(default)]
    pub(in crate::config) certificates: List<RawCertificate>,
    /// Clients must show a certificate that one of these authorities has signed. Default: they
    /// need none.
    #[serde(default)]
    pub(in crate::config) client_ca: Field<String>,
    /// The oldest version that is spoken. Default: "1.2".
    #[serde(default)]
    pub(in crate::config) min_version: Field<RawTlsVersion>,
}

/// A certificate and its key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "certificate")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawCertificate {
    /// The certificate, and those that lead from it to the authority.
    pub(in crate::config) cert: Field<String>,
    /// Its private key.
    pub(in crate::config) key: Field<String>,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "min_version")]
pub(in crate::config) enum RawTlsVersion {
    /// RFC 5246
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446
    #[serde(rename = "1.3")]
    Tls13,
}

/// The bounds of HTTP/2. Whoever goes beyond one of those a second loses the connection.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "http2")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawHttp2 {
    /// Requests under way on one connection. Default: 128.
    #[serde(default)]
    pub(in crate::config) max_streams: Field<u64>,
    /// Streams that a client may reset in a second. Default: 200.
    #[serde(default)]
    pub(in crate::config) max_resets: Field<u64>,
    /// Frames in a second that carry nothing: PING, SETTINGS, PRIORITY, CONTINUATION, empty DATA.
    /// Default: 1000.
    #[serde(default)]
    pub(in crate::config) max_control_frames: Field<u64>,
    /// WINDOW_UPDATE frames in a second. Default: 20000.
    #[serde(default)]
    pub(in crate::config) max_window_updates: Field<u64>,
}

/// How long a client may take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "listener timeouts")]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RawListenerTimeouts {
    /// For what comes before HTTP: the PROXY protocol and TLS. Default: 10s.
    #[serde(default)]
    pub(in crate::config) handshake: Field<Period>,
    /// For the head of a request. Default: 10s.
    #[serde(default)]
    pub(in crate::config) request_head: Field<Period>,
    /// Between two pieces of a body. Default: 60s.
    #[serde(default)]
    pub(in crate::config) request_body: Field<Period>,
    /// Between a response and the next request. Default: 75s.
    #[serde(default)]
    pub(in crate::config) keep_alive: Field<Period>,
    /// Of a WebSocket on which neither side sends anything. Default: 1h.
    #[serde(default)]
    pub(in crate::config) tunnel: Field<Period>,
}
