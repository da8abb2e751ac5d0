//! TLS to upstreams: trusted authorities, the gateway's own certificate, and the
//! protocols that it offers.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// TLS settings of an upstream. Two of them are equal if their parts are.
#[derive(Clone)]
pub(crate) struct TlsSettings {
    parts: TlsParts,
    /// Shared by all workers, and with it the TLS sessions that can be resumed.
    config: Arc<ClientConfig>,
}

/// The parts from which TLS settings are made.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsParts {
    /// Certificates of the trusted authorities. None: those of the system.
    pub(crate) ca: Option<Vec<CertificateDer<'static>>>,
    /// The gateway's own certificate chain and its key.
    pub(crate) identity: Option<(Vec<CertificateDer<'static>>, Arc<PrivateKeyDer<'static>>)>,
    /// The name for which the endpoints' certificates must be valid. None: the host of
    /// each endpoint.
    pub(crate) server_name: Option<ServerName<'static>>,
    /// Whether certificates are validated. If not, any server can pose as the endpoint.
    pub(crate) verify: bool,
}

impl Default for TlsParts {
    fn default() -> Self {
        Self { ca: None, identity: None, server_name: None, verify: true }
    }
}

/// Why TLS settings cannot be made from their parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsError {
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
    pub(crate) fn new(parts: TlsParts) -> Result<Self, TlsError> {
        let config = Arc::new(client_config(&parts)?);
        Ok(Self { parts, config })
    }

    /// The client configuration for this host, and the name for which its certificate
    /// must be valid.
    pub(super) fn for_host(
        &self,
        host: &ServerName<'static>,
    ) -> (Arc<ClientConfig>, ServerName<'static>) {
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
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the protocol versions");
    let builder = if parts.verify {
        let roots = Arc::new(roots(parts.ca.as_deref())?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
        builder.with_webpki_verifier(verifier.build().map_err(|_| TlsError::NoAuthorities)?)
    } else {
        let verifier = Arc::new(NoServerVerification(provider));
        builder.dangerous().with_custom_certificate_verifier(verifier)
    };
    let mut config = match &parts.identity {
        None => builder.with_no_client_auth(),
        Some((chain, _)) if chain.is_empty() => return Err(TlsError::Certificate),
        Some((chain, key)) => {
            let made = builder.with_client_auth_cert(chain.clone(), key.clone_key());
            made.map_err(|error| match error {
                Error::InconsistentKeys(_) => TlsError::Mismatch,
                Error::InvalidCertificate(_) => TlsError::Certificate,
                _ => TlsError::Key,
            })?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(ca: Option<&[CertificateDer<'static>]>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(authorities) => {
            for certificate in authorities {
                roots.add(certificate.clone()).map_err(|_| TlsError::Authority)?;
            }
            if roots.is_empty() { Err(TlsError::Authority) } else { Ok(roots) }
        }
        None => {
            // Some files of a system may be invalid. The valid ones are used.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(roots) }
        }
    }
}

/// Skips certificate validation; still verifies the handshake signature.
#[derive(Debug)]
struct NoServerVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoServerVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
