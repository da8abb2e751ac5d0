//! What comes before HTTP: sockets, the PROXY protocol, and TLS with the identity of
//! clients.

mod certificate;
pub mod identity;
pub mod proxy_protocol;
mod stream;
mod tcp;
mod tls;

pub use certificate::{Certificate, CertificateDates, TlsError, Validity};
pub use tls::{TlsSettings, TlsVersion};

pub use stream::{LOCAL_PEER, Socket, Stream, Transport, reset, socket};
pub use tcp::{MAX_AT_ONCE, Tcp};
pub use tls::ALPN_HTTP2;
