//! TLS settings from valid and invalid parts.

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};

use super::*;

type Chain = Vec<CertificateDer<'static>>;
type Key = Arc<PrivateKeyDer<'static>>;

fn pair() -> (Chain, Key) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([String::from("a.test")]).unwrap();
    (vec![cert.der().clone()], key(&signing_key))
}

fn key(pair: &KeyPair) -> Key {
    Arc::new(PrivateKeyDer::try_from(pair.serialize_der()).unwrap())
}

fn error(parts: TlsParts) -> Option<TlsError> {
    TlsSettings::new(parts).err()
}

#[test]
fn each_invalid_part_has_its_own_error() {
    let (certificate, own) = pair();
    let other = key(&KeyPair::generate().unwrap());
    let nonsense = Arc::new(PrivateKeyDer::Pkcs8(vec![1, 2].into()));
    let ca = |ca: &Chain| TlsParts { ca: Some(ca.clone()), ..TlsParts::default() };
    let identity = |chain: &Chain, key: &Key| TlsParts {
        identity: Some((chain.clone(), Arc::clone(key))),
        ..ca(&certificate)
    };
    assert_eq!(error(ca(&certificate)), None);
    assert_eq!(error(ca(&Chain::new())), Some(TlsError::Authority));
    assert_eq!(error(ca(&vec![vec![1, 2].into()])), Some(TlsError::Authority));
    assert_eq!(error(identity(&certificate, &own)), None);
    assert_eq!(error(identity(&certificate, &other)), Some(TlsError::Mismatch));
    assert_eq!(error(identity(&certificate, &nonsense)), Some(TlsError::Key));
    assert_eq!(error(identity(&Chain::new(), &own)), Some(TlsError::Certificate));
}

#[test]
fn settings_are_equal_if_their_parts_are() {
    let (certificate, _) = pair();
    let parts = TlsParts { ca: Some(certificate), ..TlsParts::default() };
    let same = [parts.clone(), parts.clone()].map(|parts| TlsSettings::new(parts).unwrap());
    assert_eq!(same[0], same[1]);
    let unverified = TlsSettings::new(TlsParts { verify: false, ..parts }).unwrap();
    assert_ne!(same[0], unverified);
}

#[test]
fn a_certificate_must_be_for_the_host_unless_another_name_is_configured() {
    let parts = TlsParts { verify: false, ..TlsParts::default() };
    let settings = TlsSettings::new(parts.clone()).unwrap();
    let [host, other] = ["a.test", "b.test"].map(|name| ServerName::try_from(name).unwrap());
    assert_eq!(settings.for_host(&host).1, host);
    let named = TlsSettings::new(TlsParts { server_name: Some(other.clone()), ..parts }).unwrap();
    assert_eq!(named.for_host(&host).1, other);
}

#[test]
fn a_key_is_not_printed() {
    let (certificate, key) = pair();
    let parts = TlsParts {
        ca: Some(certificate.clone()),
        identity: Some((certificate, key)),
        ..TlsParts::default()
    };
    let printed = format!("{:?}", TlsSettings::new(parts).unwrap());
    assert_eq!(printed, "TlsSettings { server_name: None, verify: true, .. }");
}
