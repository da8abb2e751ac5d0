//! TLS of clients: which servers a connection trusts, and what it shows of itself. All connections
//! that the gateway opens are made from these settings: those to upstreams, to key sets, to Redis,
//! to collectors of traces, and to the admin listeners of other gateways.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The servers that a client trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those with certificates of the authorities that the system trusts.
    System,
    /// Those with certificates of these authorities.
    Authorities(&'a [CertificateDer<'static>]),
    /// All: any server can pose as the right one.
    All,
}

impl<'a> Trust<'a> {
    /// Trust in these authorities, or in those of the system.
    pub fn authorities(ca: Option<&'a [CertificateDer<'static>]>) -> Self {
        ca.map_or(Self::System, Self::Authorities)
    }
}

/// A certificate chain of a client, with its own certificate first, and the key of that.
#[derive(Clone, Copy, Debug)]
pub struct ClientIdentity<'a> {
    /// The chain.
    pub chain: &'a [CertificateDer<'static>],
    /// The private key. `Debug` does not print it.
    pub key: &'a PrivateKeyDer<'static>,
}

/// Why a client cannot use TLS as its settings say.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientTlsError {
    /// A certificate of an authority cannot be used.
    #[error("a certificate of an authority cannot be used: {0}")]
    Authority(Error),
    /// There are no authorities.
    #[error("there are no certificates of authorities")]
    NoAuthorities,
    /// The certificate of the client and its key cannot be used.
    #[error("the certificate and its key cannot be used: {0}")]
    Identity(Error),
}

/// The settings of connections with this trust and this identity. They offer no protocols (ALPN).
///
/// # Errors
/// If a certificate or the key cannot be used, or there are no authorities.
///
/// # Panics
/// Never: the cryptography of `aws-lc-rs` has all versions of the protocol.
pub fn client_config(
    trust: Trust<'_>,
    identity: Option<ClientIdentity<'_>>,
) -> Result<ClientConfig, ClientTlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the protocol versions");
    let builder = match roots(trust)? {
        None => {
            let verifier = Arc::new(NoServerVerification(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
        Some(roots) => {
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|_| ClientTlsError::NoAuthorities)?;
            builder.with_webpki_verifier(verifier)
        }
    };
    let Some(ClientIdentity { chain, key }) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    builder.with_client_auth_cert(chain.to_vec(), key.clone_key()).map_err(ClientTlsError::Identity)
}

/// Checks that a certificate and its key can be used together.
///
/// # Errors
/// If they cannot.
pub fn check_identity(identity: ClientIdentity<'_>) -> Result<(), Error> {
    match client_config(Trust::All, Some(identity)) {
        Err(ClientTlsError::Identity(error)) => Err(error),
        _ => Ok(()),
    }
}

/// The certificates of the authorities. None: any certificate is good.
fn roots(trust: Trust<'_>) -> Result<Option<RootCertStore>, ClientTlsError> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::All => return Ok(None),
        Trust::Authorities(authorities) => {
            for certificate in authorities {
                roots.add(certificate.clone()).map_err(ClientTlsError::Authority)?;
            }
        }
        Trust::System => {
            // Some files of a system may be invalid. The valid ones are used.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() { Err(ClientTlsError::NoAuthorities) } else { Ok(Some(roots)) }
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
mod tests {
    use super::*;

    #[test]
    fn each_part_that_cannot_be_used_has_its_error() {
        let nonsense = [CertificateDer::from(vec![1, 2])];
        let error = |trust| client_config(trust, None).err();
        assert_eq!(error(Trust::All), None);
        assert_eq!(error(Trust::authorities(Some(&[]))), Some(ClientTlsError::NoAuthorities));
        let authority = error(Trust::authorities(Some(&nonsense)));
        assert!(matches!(authority, Some(ClientTlsError::Authority(_))), "{authority:?}");
        let key = PrivateKeyDer::Pkcs8(vec![1, 2].into());
        let identity = ClientIdentity { chain: &nonsense, key: &key };
        let error = check_identity(identity).expect_err("neither is one");
        let made = client_config(Trust::All, Some(identity)).err();
        assert_eq!(made, Some(ClientTlsError::Identity(error)));
    }
}
