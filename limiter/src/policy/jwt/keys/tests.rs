//! Texts that are keys, and the errors of other texts.

use super::*;

const ALL: [Algorithm; 4] =
    [Algorithm::HS256, Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
const RSA: &str = include_str!("../test_keys/rsa.public.pem");
const P256: &str = include_str!("../test_keys/p256.public.pem");
const ED25519: &str = include_str!("../test_keys/ed25519.public.pem");
const SET: &str = include_str!("../test_keys/set.json");

fn error(key: Result<VerifyingKey, KeyError>) -> String {
    key.unwrap_err().to_string()
}

#[test]
fn a_key_is_for_the_one_algorithm_of_its_kind() {
    let key = |pem: &str| VerifyingKey::from_pem(pem.as_bytes(), &ALL).unwrap().algorithms;
    assert_eq!(key(RSA), [Algorithm::RS256]);
    assert_eq!(key(P256), [Algorithm::ES256]);
    assert_eq!(key(ED25519), [Algorithm::EdDSA]);
    let secret = VerifyingKey::from_secret(&[7; MIN_SECRET], &ALL).unwrap();
    assert_eq!(secret.algorithms, [Algorithm::HS256]);
}

#[test]
fn a_key_for_an_algorithm_that_is_not_allowed_is_refused() {
    assert_eq!(
        error(VerifyingKey::from_pem(RSA.as_bytes(), &[Algorithm::HS256])),
        "this is a key for RS256, which is not among the algorithms [HS256]",
    );
    assert!(matches!(
        VerifyingKey::from_secret(&[7; MIN_SECRET], &[Algorithm::ES256]),
        Err(KeyError::OtherAlgorithm { fits: Algorithm::HS256, .. })
    ));
    assert!(matches!(VerifyingKey::from_pem(RSA.as_bytes(), &[]), Err(KeyError::NoAlgorithm)));
    assert!(matches!(
        VerifyingKey::from_pem(RSA.as_bytes(), &[Algorithm::RS256, Algorithm::PS256]),
        Err(KeyError::Unsupported(Algorithm::PS256))
    ));
}

#[test]
fn weak_keys_are_refused() {
    assert_eq!(
        error(VerifyingKey::from_secret(b"secret", &ALL)),
        "a secret for HS256 has at least 32 bytes, this one has 6",
    );
    let short = include_str!("../test_keys/rsa1024.public.pem");
    assert!(matches!(VerifyingKey::from_pem(short.as_bytes(), &ALL), Err(KeyError::ShortModulus)));
    let set = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#;
    assert!(matches!(VerifyingKey::from_jwks(set, &ALL), Err(KeyError::ShortSecret(6))));
}

#[test]
fn a_text_that_is_not_a_public_key_is_refused() {
    let private = include_str!("../test_keys/rsa.private.pem");
    let other_curve = include_str!("../test_keys/p384.public.pem");
    assert!(matches!(VerifyingKey::from_pem(private.as_bytes(), &ALL), Err(KeyError::Private)));
    assert!(matches!(VerifyingKey::from_pem(other_curve.as_bytes(), &ALL), Err(KeyError::Curve)));
    let certificate = RSA.replace("PUBLIC KEY", "CERTIFICATE");
    for text in ["", "secret", &certificate, &RSA[..RSA.len() / 2]] {
        assert!(
            matches!(VerifyingKey::from_pem(text.as_bytes(), &ALL), Err(KeyError::Pem(_))),
            "{text}"
        );
    }
}

#[test]
fn a_key_set_gives_its_usable_keys() {
    let ids = |algorithms: &[Algorithm]| -> Vec<_> {
        let keys = VerifyingKey::from_jwks(SET, algorithms).unwrap();
        keys.into_iter().map(|key| key.id.unwrap()).collect()
    };
    assert_eq!(ids(&ALL), ["rsa", "p256", "ed25519"]);
    assert_eq!(ids(&[Algorithm::ES256]), ["p256"]);
}

#[test]
fn a_key_set_without_a_usable_key_is_refused() {
    let result = |text: &str| VerifyingKey::from_jwks(text, &[Algorithm::HS256]);
    assert!(matches!(result(SET), Err(KeyError::NoKey(_))));
    assert!(matches!(result(r#"{"keys": []}"#), Err(KeyError::NoKey(_))));
    assert!(matches!(result("[]"), Err(KeyError::Jwks(_))));
    let broken = r#"{"keys": [{"kty": "oct", "kid": "a", "k": "???"}]}"#;
    assert_eq!(result(broken).unwrap_err().to_string(), "the key a of the key set is malformed");
}

#[test]
fn the_size_of_a_key_set_is_bounded() {
    let member = format!(r#"{{"kty": "oct", "k": "{}"}}"#, "A".repeat(44));
    let set = |size: usize| format!(r#"{{"keys": [{}]}}"#, vec![&*member; size].join(","));
    let size = |text: &str| VerifyingKey::from_jwks(text, &ALL).map(|keys| keys.len());
    assert!(matches!(size(&set(MAX_KEYS)), Ok(MAX_KEYS)));
    assert!(matches!(size(&set(MAX_KEYS + 1)), Err(KeyError::TooManyKeys)));
}

#[test]
fn a_key_is_never_printed() {
    let key = VerifyingKey::from_secret(b"correct horse battery staple, and more", &ALL).unwrap();
    assert_eq!(format!("{key:?}"), "VerifyingKey { id: None, algorithms: [HS256], .. }");
}
