//! TLS settings from valid and invalid parts.

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};

use super::*;

fn pair() -> (Vec<u8>, Vec<u8>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([String::from("a.test")]).unwrap();
    (cert.pem().into_bytes(), signing_key.serialize_pem().into_bytes())
}

fn error(parts: TlsParts) -> Option<TlsError> {
    TlsSettings::new(parts).err()
}

#[test]
fn each_invalid_part_has_its_own_error() {
    let (certificate, key) = pair();
    let other_key = KeyPair::generate().unwrap().serialize_pem().into_bytes();
    let ca = |ca: &[u8]| TlsParts { ca: Some(ca.to_vec()), ..TlsParts::default() };
    let identity = |certificate: &[u8], key: &[u8]| TlsParts {
        identity: Some((certificate.to_vec(), key.to_vec())),
        ..ca(certificate)
    };
    assert_eq!(error(ca(&certificate)), None);
    assert_eq!(error(ca(b"nothing")), Some(TlsError::Authority));
    assert_eq!(error(ca(&key)), Some(TlsError::Authority));
    assert_eq!(error(identity(&certificate, &key)), None);
    assert_eq!(error(identity(&certificate, &other_key)), Some(TlsError::Mismatch));
    assert_eq!(error(identity(&certificate, b"nothing")), Some(TlsError::Key));
    let nothing = TlsParts { identity: Some((vec![], key)), ..ca(&certificate) };
    assert_eq!(error(nothing), Some(TlsError::Certificate));
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
