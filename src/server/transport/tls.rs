//! TLS for clients: choice of the certificate by name, and session resumption.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::identity::alternatives;

/// The protocol names of HTTP/2 and HTTP/1.1 (RFC 7301).
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The TLS settings of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// At least one. The first is used if no other has the name that a client asks for.
    pub(crate) certificates: Vec<Certificate>,
    /// Clients must present a certificate signed by one of these. Empty: they need none.
    pub(crate) client_ca: Vec<CertificateDer<'static>>,
    /// The oldest version that is accepted.
    pub(crate) min_version: TlsVersion,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TlsVersion {
    /// RFC 5246
    #[default]
    Tls12,
    /// RFC 8446
    Tls13,
}

/// A certificate with its chain, its key, and its names.
#[derive(Clone)]
pub(crate) struct Certificate {
    certified: Arc<CertifiedKey>,
    key: Arc<PrivateKeyDer<'static>>,
    names: Vec<String>,
}

/// Why something cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsError {
    /// There is no certificate, or it cannot be read.
    #[error("there is no certificate in it that could be read")]
    NoCertificate,
    /// There is no private key, or it cannot be read.
    #[error("there is no private key in it that could be read")]
    NoKey,
    /// Certificate and key do not belong together, or their kind is not supported.
    #[error("certificate and key cannot be used together: {0}")]
    Mismatch(String),
    /// The certificates cannot be used to verify clients.
    #[error("it cannot be used to verify clients: {0}")]
    ClientCa(String),
}

impl Certificate {
    /// Reads a chain, which begins with the certificate of the server, and its key, both
    /// in PEM.
    ///
    /// # Errors
    /// If one of the two cannot be read, or they do not belong together.
    pub(crate) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let names = chain.first().map_or_else(Vec::new, names);
        let provider = aws_lc_rs::default_provider();
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider)
            .map_err(|error| TlsError::Mismatch(error.to_string()))?;
        Ok(Self { certified: Arc::new(certified), key: Arc::new(key), names })
    }
}

/// All certificates in a PEM text.
///
/// # Errors
/// If there is none, or one cannot be read.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or(TlsError::NoCertificate)
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert && self.key == other.key
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("names", &self.names).finish_non_exhaustive()
    }
}

impl TlsSettings {
    /// The configuration that all connections share. Clients can resume sessions with
    /// tickets on every worker. `http2`: whether HTTP/2 is offered.
    ///
    /// # Errors
    /// If `client_ca` cannot be used to verify clients.
    pub(crate) fn server(&self, http2: bool) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = match self.min_version {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("the provider has suites for both versions");
        let builder = match self.client_ca.as_slice() {
            [] => builder.with_no_client_auth(),
            roots => {
                let mut store = RootCertStore::empty();
                store.add_parsable_certificates(roots.iter().cloned());
                let verifier = WebPkiClientVerifier::builder_with_provider(store.into(), provider)
                    .build()
                    .map_err(|error| TlsError::ClientCa(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(ByName::new(&self.certificates)));
        config.alpn_protocols = match http2 {
            true => vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()],
            false => vec![ALPN_HTTP1.to_vec()],
        };
        config.ticketer =
            Ticketer::new().expect("the system provides random numbers, which keys need too");
        Ok(Arc::new(config))
    }

    /// Whether clients must present a certificate.
    pub(crate) fn asks_clients(&self) -> bool {
        !self.client_ca.is_empty()
    }

    /// Checks that the settings can be used.
    ///
    /// # Errors
    /// If `client_ca` cannot be used to verify clients.
    pub(crate) fn check(&self) -> Result<(), TlsError> {
        self.server(true).map(drop)
    }
}

/// Chooses the certificate by the name that a client asks for (SNI, RFC 6066).
#[derive(Debug)]
struct ByName {
    /// By name in lower case. In `*.example.com` the star stands for one label.
    names: HashMap<String, Arc<CertifiedKey>>,
    default: Option<Arc<CertifiedKey>>,
}

impl ByName {
    fn new(certificates: &[Certificate]) -> Self {
        let mut names = HashMap::new();
        for certificate in certificates {
            for name in &certificate.names {
                let certified = Arc::clone(&certificate.certified);
                names.entry(name.clone()).or_insert(certified);
            }
        }
        let default = certificates.first().map(|first| Arc::clone(&first.certified));
        Self { names, default }
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.names.get(&name).or_else(|| {
            let (_, parent) = name.split_once('.')?;
            self.names.get(&format!("*.{parent}"))
        })
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.find(name));
        named.or(self.default.as_ref()).cloned()
    }
}

/// The DNS names of a certificate, in lower case.
fn names(certificate: &CertificateDer<'static>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    alternatives(&parsed, |name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, generate_simple_self_signed};

    use super::*;

    fn certificate(names: &[&str]) -> Certificate {
        let names: Vec<_> = names.iter().copied().map(String::from).collect();
        let made = generate_simple_self_signed(names).unwrap();
        let key = made.signing_key.serialize_pem();
        Certificate::from_pem(made.cert.pem().as_bytes(), key.as_bytes()).unwrap()
    }

    #[test]
    fn a_name_selects_its_certificate_and_an_unknown_name_the_first() {
        let certificates =
            [certificate(&["a.example"]), certificate(&["*.b.example", "B.example"])];
        let by_name = ByName::new(&certificates);
        let found = |name: &str| {
            let found = by_name.find(name)?;
            certificates.iter().position(|one| Arc::ptr_eq(&one.certified, found))
        };
        assert_eq!(found("A.example"), Some(0));
        assert_eq!(found("b.example"), Some(1));
        assert_eq!(found("x.b.example"), Some(1));
        assert_eq!(found("y.x.b.example"), None, "a star stands for one label");
        assert_eq!(found("other"), None);
        assert!(Arc::ptr_eq(by_name.default.as_ref().unwrap(), &certificates[0].certified));
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let made = CertificateParams::default().self_signed(&one).unwrap().pem();
        let load = |chain: &str, key: &str| Certificate::from_pem(chain.as_bytes(), key.as_bytes());
        assert!(load(&made, &one.serialize_pem()).is_ok());
        let mismatch = load(&made, &other.serialize_pem());
        assert!(matches!(mismatch, Err(TlsError::Mismatch(_))), "{mismatch:?}");
        assert_eq!(load("", &one.serialize_pem()), Err(TlsError::NoCertificate));
        assert_eq!(load(&made, &made), Err(TlsError::NoKey));
    }

    #[test]
    fn a_key_is_never_printed() {
        let shown = format!("{:?}", certificate(&["a.example"]));
        assert_eq!(shown, "Certificate { names: [\"a.example\"], .. }");
    }
}
