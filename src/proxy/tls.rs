//! TLS to upstreams: trusted authorities, the gateway's own certificate, and the
//! protocols that it offers.

mod handshake;

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, Error};
use tollgate_core::tls::{self, ClientIdentity, ClientTlsError, Trust};

pub use handshake::HandshakeFailure;

/// TLS settings of an upstream. Two of them are equal if their parts are.
#[derive(Clone)]
pub struct TlsSettings {
    parts: TlsParts,
    /// Shared by all workers, and with it the TLS sessions that can be resumed.
    config: Arc<ClientConfig>,
}

/// The parts from which TLS settings are made.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsParts {
    /// Certificates of the trusted authorities. None: those of the system.
    pub ca: Option<Vec<CertificateDer<'static>>>,
    /// The gateway's own certificate chain and its key.
    pub identity: Option<(Vec<CertificateDer<'static>>, Arc<PrivateKeyDer<'static>>)>,
    /// The name for which the endpoints' certificates must be valid. None: the host of
    /// each endpoint.
    pub server_name: Option<ServerName<'static>>,
    /// Whether certificates are validated. If not, any server can pose as the endpoint.
    pub verify: bool,
}

impl Default for TlsParts {
    fn default() -> Self {
        Self { ca: None, identity: None, server_name: None, verify: true }
    }
}

/// Why TLS settings cannot be made from their parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// There is no authority, or one that cannot be used.
    #[error("there is no certificate of an authority in it")]
    Authority,
    /// The system has no certificates of authorities.
    #[error("the system has no certificates of authorities")]
    NoAuthorities,
    /// The gateway's own certificate is missing or invalid.
    #[error("there is no certificate in it that can be used")]
    Certificate,
    /// The gateway's own key is invalid, too short, or of a kind that is not supported.
    #[error("the private key in it cannot be used")]
    Key,
    /// The key does not match the certificate.
    #[error("the key does not belong to the certificate")]
    Mismatch,
}

impl TlsSettings {
    /// Settings from these parts.
    ///
    /// # Errors
    /// If a part is invalid.
    pub fn new(parts: TlsParts) -> Result<Self, TlsError> {
        let config = Arc::new(client_config(&parts)?);
        Ok(Self { parts, config })
    }

    /// The client configuration for this host, and the name for which its certificate
    /// must be valid.
    pub fn for_host(&self, host: &ServerName<'static>) -> (Arc<ClientConfig>, ServerName<'static>) {
        let name = self.parts.server_name.as_ref().unwrap_or(host);
        (Arc::clone(&self.config), name.clone())
    }
}

impl PartialEq for TlsSettings {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for TlsSettings {}

/// Does not print the key.
impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("server_name", &self.parts.server_name)
            .field("verify", &self.parts.verify)
            .finish_non_exhaustive()
    }
}

fn client_config(parts: &TlsParts) -> Result<ClientConfig, TlsError> {
    let trust = match parts.verify {
        true => Trust::authorities(parts.ca.as_deref()),
        false => Trust::All,
    };
    if parts.identity.as_ref().is_some_and(|(chain, _)| chain.is_empty()) {
        return Err(TlsError::Certificate);
    }
    let identity = parts.identity.as_ref().map(|(chain, key)| ClientIdentity { chain, key });
    let made = tls::client_config(trust, identity);
    let mut config = made.map_err(|error| match error {
        ClientTlsError::Authority(_) => TlsError::Authority,
        ClientTlsError::NoAuthorities if parts.ca.is_some() => TlsError::Authority,
        ClientTlsError::NoAuthorities => TlsError::NoAuthorities,
        ClientTlsError::Identity(Error::InconsistentKeys(_)) => TlsError::Mismatch,
        ClientTlsError::Identity(Error::InvalidCertificate(_)) => TlsError::Certificate,
        ClientTlsError::Identity(_) => TlsError::Key,
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
