//! The certificate of a listener with its chain and key, and what a certificate says of itself:
//! names and dates.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, SignatureAlgorithm};
use tollgate_core::time::Timestamp;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::identity::{alternatives, identity};

/// The fewest bits of an RSA key that the cryptography signs with.
const MIN_RSA_BITS: usize = 2048;

/// Why something cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// The key belongs to another certificate of the chain than the first.
    #[error(
        "the certificates are in the wrong order: the key belongs to number {number} \
         (\"{subject}\"), which must be the first"
    )]
    Order {
        /// The place of the certificate that must be the first, beginning with 1.
        number: usize,
        /// The subject of that certificate.
        subject: String,
    },
    /// Certificate and key do not belong together.
    #[error("the key does not belong to the certificate")]
    Mismatch,
    /// An RSA key with so few bits.
    #[error("it is an RSA key of {0} bits, and at least 2048 bits are needed")]
    ShortKey(usize),
    /// The certificate is damaged, or of a kind that is not supported.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The key is damaged, or of a kind that is not supported.
    #[error("the key cannot be used: {0}")]
    Key(String),
    /// The certificates cannot be used to verify clients.
    #[error("it cannot be used to verify clients: {0}")]
    ClientCa(String),
}

/// A certificate with its chain, its key, and its names.
#[derive(Clone)]
pub struct Certificate {
    pub certified: Arc<CertifiedKey>,
    key: Arc<PrivateKeyDer<'static>>,
    pub names: Vec<String>,
}

impl Certificate {
    /// A chain, which begins with the certificate of the server, and its key.
    ///
    /// # Errors
    /// If they do not belong together, or the key cannot be used.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: Arc<PrivateKeyDer<'static>>,
    ) -> Result<Self, TlsError> {
        let first = chain.first().ok_or(TlsError::NoCertificate)?;
        let names = names(first);
        let loader = aws_lc_rs::default_provider().key_provider;
        let signer = loader.load_private_key(key.clone_key()).map_err(|error| {
            match rsa_bits(first).filter(|bits| *bits < MIN_RSA_BITS) {
                Some(bits) => TlsError::ShortKey(bits),
                None => TlsError::Key(error.to_string()),
            }
        })?;
        let certified = CertifiedKey::new(chain, signer);
        match certified.keys_match() {
            // The kind of the key does not say which certificate it belongs to.
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(Self { certified: Arc::new(certified), key, names })
            }
            Err(Error::InconsistentKeys(_)) => Err(mismatch(&certified)),
            Err(error) => Err(TlsError::Certificate(error.to_string())),
        }
    }

    /// The kind of its key. A client may not support every kind.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        self.certified.key.algorithm()
    }

    /// Its DNS names, in lower case.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of the first certificate of the chain that did not sign the one before it, as
    /// TLS 1.2 demands it (RFC 5246, section 7.4.2).
    pub fn out_of_order(&self) -> Option<usize> {
        let chain = &self.certified.cert;
        let signed = |pair: &[CertificateDer<'_>]| {
            let (Ok((_, one)), Ok((_, next))) =
                (X509Certificate::from_der(&pair[0]), X509Certificate::from_der(&pair[1]))
            else {
                return false;
            };
            one.issuer().as_raw() == next.subject().as_raw()
        };
        chain.windows(2).position(|pair| !signed(pair)).map(|index| index + 2)
    }
}

/// Why a key does not belong to the first certificate of its chain.
fn mismatch(certified: &CertifiedKey) -> TlsError {
    let fits = |one: &CertificateDer<'static>| {
        CertifiedKey::new(vec![one.clone()], Arc::clone(&certified.key)).keys_match().is_ok()
    };
    match certified.cert.iter().position(fits) {
        Some(index) => {
            TlsError::Order { number: index + 1, subject: subject(&certified.cert[index]) }
        }
        None => TlsError::Mismatch,
    }
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

/// A certificate, and the time in which it is valid (RFC 5280, section 4.1.2.5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateDates {
    /// Its first DNS name, or else its subject.
    pub name: String,
    /// The first second, in seconds since 1970.
    pub from_s: u64,
    /// The last second, in seconds since 1970.
    pub until_s: u64,
}

/// Whether a certificate is valid at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    NotYet,
    Valid,
    Expired,
}

impl CertificateDates {
    /// The dates of a certificate. None if it cannot be parsed.
    pub fn of(certificate: &CertificateDer<'static>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let name = names(certificate).into_iter().next();
        let seconds = |date: x509_parser::time::ASN1Time| {
            // A date before 1970 is long ago.
            u64::try_from(date.timestamp()).unwrap_or_default()
        };
        Some(Self {
            name: name.unwrap_or_else(|| subject(certificate)),
            from_s: seconds(parsed.validity().not_before),
            until_s: seconds(parsed.validity().not_after),
        })
    }

    /// Whether the certificate is valid at `now`.
    pub fn at(&self, now: Timestamp) -> Validity {
        match now.as_secs() {
            now if now < self.from_s => Validity::NotYet,
            now if now > self.until_s => Validity::Expired,
            _ => Validity::Valid,
        }
    }
}

/// The subject of a certificate, or its first alternative name.
fn subject(certificate: &CertificateDer<'_>) -> String {
    identity(certificate).map_or_else(String::new, |it| it.to_string())
}

/// The DNS names of a certificate, in lower case.
fn names(certificate: &CertificateDer<'static>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    alternatives(&parsed, |name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    })
}

/// The length of the RSA key of a certificate, in bits.
fn rsa_bits(certificate: &CertificateDer<'_>) -> Option<usize> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    match parsed.public_key().parsed().ok()? {
        PublicKey::RSA(key) => Some(key.key_size()),
        _ => None,
    }
}

#[cfg(test)]
pub mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
        PKCS_ED25519, SignatureAlgorithm, date_time_ymd,
    };
    use tollgate_core::time::Span;

    use super::*;

    fn params(names: &[&str]) -> CertificateParams {
        let mut params =
            CertificateParams::new(names.iter().copied().map(String::from).collect::<Vec<_>>())
                .unwrap();
        params.distinguished_name.push(DnType::CommonName, *names.first().unwrap_or(&"none"));
        params
    }

    fn key_of(pair: &KeyPair) -> Arc<PrivateKeyDer<'static>> {
        Arc::new(PrivateKeyDer::try_from(pair.serialize_der()).unwrap())
    }

    /// A certificate with these names that signs itself.
    pub fn signed(names: &[&str], algorithm: &'static SignatureAlgorithm) -> Certificate {
        let pair = KeyPair::generate_for(algorithm).unwrap();
        let chain = vec![params(names).self_signed(&pair).unwrap().der().clone()];
        Certificate::new(chain, key_of(&pair)).unwrap()
    }

    /// The certificates of an authority, of one below it, and of a server, with the key of the
    /// server.
    fn chain() -> ([CertificateDer<'static>; 3], Arc<PrivateKeyDer<'static>>) {
        let mut of_ca = ["root", "middle"].map(|name| params(&[name]));
        of_ca.iter_mut().for_each(|it| it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
        let [root, middle] = of_ca;
        let [root_key, middle_key, key] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let root_der = root.self_signed(&root_key).unwrap().der().clone();
        let root = Issuer::new(root, root_key);
        let middle_der = middle.signed_by(&middle_key, &root).unwrap().der().clone();
        let middle = Issuer::new(middle, middle_key);
        let server = params(&["a.test"]).signed_by(&key, &middle).unwrap().der().clone();
        ([root_der, middle_der, server], key_of(&key))
    }

    #[test]
    fn a_chain_begins_with_the_certificate_of_the_key() {
        let ([root, middle, server], key) = chain();
        let load = |order: [&CertificateDer<'static>; 3]| {
            Certificate::new(order.map(Clone::clone).to_vec(), Arc::clone(&key))
        };
        assert_eq!(load([&server, &middle, &root]).unwrap().out_of_order(), None);
        assert_eq!(load([&server, &root, &middle]).unwrap().out_of_order(), Some(2));
        let error = load([&root, &middle, &server]).unwrap_err();
        assert_eq!(error, TlsError::Order { number: 3, subject: "CN=a.test".to_owned() });
        assert!(error.to_string().contains("order"), "{error}");
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let ([.., server], key) = chain();
        assert!(Certificate::new(vec![server.clone()], key).is_ok());
        for other in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
            let other = key_of(&KeyPair::generate_for(other).unwrap());
            let error = Certificate::new(vec![server.clone()], other).unwrap_err();
            assert_eq!(error, TlsError::Mismatch);
        }
        let nonsense = PrivateKeyDer::Pkcs8(vec![1, 2].into());
        let error = Certificate::new(vec![server], Arc::new(nonsense)).unwrap_err();
        assert!(matches!(error, TlsError::Key(_)), "{error:?}");
    }

    #[test]
    fn a_certificate_has_a_name_and_dates() {
        let pair = KeyPair::generate().unwrap();
        let mut params = params(&["a.test", "b.test"]);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 2, 1);
        let made = params.self_signed(&pair).unwrap();
        let dates = CertificateDates::of(made.der()).unwrap();
        let from_s = 1_767_225_600;
        let until_s = 1_769_904_000;
        assert_eq!(dates, CertificateDates { name: "a.test".to_owned(), from_s, until_s });
        let at = |s: u64| dates.at(Timestamp::default().plus(Span::from_secs(s)));
        assert_eq!(
            [from_s - 1, from_s, until_s, until_s + 1].map(at),
            [Validity::NotYet, Validity::Valid, Validity::Valid, Validity::Expired]
        );
    }

    #[test]
    fn a_key_is_never_printed() {
        let shown = format!("{:?}", signed(&["a.example"], &PKCS_ED25519));
        assert_eq!(shown, "Certificate { names: [\"a.example\"], .. }");
    }
}
