//! TLS for clients: choice of the certificate by name and signature, and session resumption.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::CertificateDer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SignatureScheme};
use smallvec::SmallVec;

use super::certificate::{Certificate, TlsError};

/// The protocol names of HTTP/2 and HTTP/1.1 (RFC 7301).
pub const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The TLS settings of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// At least one. The first is used if no other has the name that a client asks for. Several
    /// may have one name: a client gets the first whose signature it can verify.
    pub certificates: Vec<Certificate>,
    /// Clients must present a certificate signed by one of these. Empty: they need none.
    pub client_ca: Vec<CertificateDer<'static>>,
    /// The oldest version that is accepted.
    pub min_version: TlsVersion,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246
    #[default]
    Tls12,
    /// RFC 8446
    Tls13,
}

impl TlsSettings {
    /// The configuration that all connections share. Clients can resume sessions with tickets on
    /// every worker, unless they must present a certificate: a resumed session does not verify it
    /// again, so it could be used for ever after it has expired. `http2`: whether HTTP/2 is offered.
    ///
    /// # Errors
    /// If `client_ca` cannot be used to verify clients.
    pub fn server(&self, http2: bool) -> Result<Arc<ServerConfig>, TlsError> {
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
                for (index, root) in roots.iter().enumerate() {
                    store.add(root.clone()).map_err(|error| {
                        TlsError::ClientCa(format!("its certificate {}: {error}", index + 1))
                    })?;
                }
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
        match self.asks_clients() {
            true => {
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
            }
            false => {
                config.ticketer = Ticketer::new()
                    .expect("the system provides random numbers, which keys need too");
            }
        }
        Ok(Arc::new(config))
    }

    /// Whether clients must present a certificate.
    pub fn asks_clients(&self) -> bool {
        !self.client_ca.is_empty()
    }

    /// Checks that the settings can be used.
    ///
    /// # Errors
    /// If `client_ca` cannot be used to verify clients.
    pub fn check(&self) -> Result<(), TlsError> {
        self.server(true).map(drop)
    }
}

/// Chooses the certificate by the name that a client asks for (SNI, RFC 6066), and by the
/// signatures that it can verify (RFC 8446, section 4.2.3).
#[derive(Debug)]
struct ByName {
    /// By name in lower case. In `*.example.com` the star stands for one label. Each list is in
    /// the order of the file.
    names: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// The first certificate, and others with the same names.
    default: Vec<Arc<CertifiedKey>>,
}

impl ByName {
    fn new(certificates: &[Certificate]) -> Self {
        let mut names = HashMap::<_, Vec<_>>::new();
        let mut default = Vec::new();
        for certificate in certificates {
            let certified = &certificate.certified;
            for name in &certificate.names {
                names.entry(name.clone()).or_default().push(Arc::clone(certified));
            }
            if is_same_server(certificate, &certificates[0]) {
                default.push(Arc::clone(certified));
            }
        }
        Self { names, default }
    }

    /// The certificates for a name, the best first.
    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let of = |name: &String| self.names.get(name);
        of(&name).into_iter().chain(wildcard.as_ref().and_then(of)).flatten()
    }

    /// The first certificate for the name that the client can verify. The first one if there is
    /// none: the handshake then fails with an alert that says why.
    fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<&Arc<CertifiedKey>> {
        let named = name.into_iter().flat_map(|name| self.named(name));
        let mut candidates: SmallVec<[_; 4]> = named.collect();
        if candidates.is_empty() {
            candidates.extend(&self.default);
        }
        // A client of TLS 1.3 may offer old signatures that it accepts in chains only.
        let is_new = |scheme: &SignatureScheme| !PKCS1.contains(scheme);
        let new: SmallVec<[_; 24]> = schemes.iter().copied().filter(is_new).collect();
        let able = |schemes: &[SignatureScheme]| {
            candidates.iter().find(|it| it.key.choose_scheme(schemes).is_some())
        };
        able(&new).or_else(|| able(schemes)).or(candidates.first()).copied()
    }
}

/// Whether two certificates are for the same names.
fn is_same_server(one: &Certificate, other: &Certificate) -> bool {
    one.names.len() == other.names.len() && one.names.iter().all(|it| other.names.contains(it))
}

/// The signatures of RSA that TLS 1.3 does not use in handshakes (RFC 8446, section 4.2.3).
const PKCS1: [SignatureScheme; 4] = [
    SignatureScheme::RSA_PKCS1_SHA1,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use SignatureScheme::{ECDSA_NISTP256_SHA256, ED25519, RSA_PKCS1_SHA256, RSA_PSS_SHA256};
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};

    use super::super::certificate::tests::signed;
    use super::*;

    /// The place of the certificate that a client gets.
    fn chosen(
        certificates: &[Certificate],
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<usize> {
        let by_name = ByName::new(certificates);
        let found = by_name.choose(name, schemes)?;
        certificates.iter().position(|one| Arc::ptr_eq(&one.certified, found))
    }

    #[test]
    fn a_name_selects_its_certificate_and_an_unknown_name_the_first() {
        let certificate = |names| signed(names, &PKCS_ECDSA_P256_SHA256);
        let certificates =
            [certificate(&["a.example"]), certificate(&["*.b.example", "B.example"])];
        let found = |name| chosen(&certificates, name, &[ECDSA_NISTP256_SHA256]);
        assert_eq!(found(Some("A.example")), Some(0));
        assert_eq!(found(Some("b.example")), Some(1));
        assert_eq!(found(Some("x.b.example")), Some(1));
        assert_eq!(found(Some("y.x.b.example")), Some(0), "a star stands for one label");
        assert_eq!(found(Some("other")), Some(0));
        assert_eq!(found(None), Some(0));
    }

    #[test]
    fn of_certificates_for_one_name_a_client_gets_one_that_it_can_verify() {
        let certificates = [
            signed(&["a.test"], &PKCS_RSA_SHA256),
            signed(&["a.test"], &PKCS_ECDSA_P256_SHA256),
            signed(&["*.test"], &PKCS_ED25519),
        ];
        for (schemes, expected) in [
            (&[RSA_PSS_SHA256, ECDSA_NISTP256_SHA256][..], 0),
            (&[ECDSA_NISTP256_SHA256, RSA_PSS_SHA256], 0),
            (&[ECDSA_NISTP256_SHA256], 1),
            (&[RSA_PKCS1_SHA256], 0),
            // TLS 1.3 would fail with the first.
            (&[ECDSA_NISTP256_SHA256, RSA_PKCS1_SHA256], 1),
            (&[ED25519], 2),
            (&[], 0),
        ] {
            let found = chosen(&certificates, Some("a.test"), schemes);
            assert_eq!(found, Some(expected), "{schemes:?}");
        }
        // Without a name: those with the names of the first.
        assert_eq!(chosen(&certificates, None, &[ECDSA_NISTP256_SHA256]), Some(1));
        assert_eq!(chosen(&certificates, None, &[ED25519]), Some(0));
    }

    #[test]
    fn an_authority_that_cannot_be_used_is_not_left_out() {
        let certificate = signed(&["a.test"], &PKCS_ED25519);
        let good = certificate.certified.cert[0].clone();
        let settings = |client_ca| TlsSettings {
            certificates: vec![certificate.clone()],
            client_ca,
            min_version: TlsVersion::Tls12,
        };
        assert_eq!(settings(vec![good.clone()]).check(), Ok(()));
        let error = settings(vec![good, CertificateDer::from(vec![1, 2])]).check().unwrap_err();
        assert!(error.to_string().contains("certificate 2"), "{error}");
    }
}
