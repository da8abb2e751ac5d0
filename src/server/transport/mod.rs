//! What comes before HTTP: sockets, the PROXY protocol, and TLS with the identity of
//! clients.

mod certificate;
pub(super) mod identity;
pub(super) mod proxy_protocol;
mod stream;
mod tcp;
mod tls;

pub(crate) use certificate::{Certificate, CertificateDates, TlsError, Validity};
pub(crate) use tls::{TlsSettings, TlsVersion};

pub(super) use stream::{LOCAL_PEER, Socket, Stream, Transport, reset, socket};
pub(super) use tcp::{MAX_AT_ONCE, Tcp};
pub(super) use tls::ALPN_HTTP2;
