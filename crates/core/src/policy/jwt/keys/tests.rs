//! Texts that are keys, and the errors of other texts.

use super::*;

const ALL: [Algorithm; 12] = [
    Algorithm::HS256,
    Algorithm::HS384,
    Algorithm::HS512,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
const RSA: &str = include_str!("../test_keys/rsa.public.pem");
const P256: &str = include_str!("../test_keys/p256.public.pem");
const P384: &str = include_str!("../test_keys/p384.public.pem");
const ED25519: &str = include_str!("../test_keys/ed25519.public.pem");

fn error(key: Result<VerifyingKey, KeyError>) -> String {
    key.unwrap_err().to_string()
}

#[test]
fn a_key_is_for_the_algorithms_of_its_kind() {
    let key = |pem: &str| VerifyingKey::from_pem(pem.as_bytes(), &ALL).unwrap().algorithms;
    assert_eq!(key(RSA), ALL[3..9]);
    assert_eq!(key(P256), [Algorithm::ES256]);
    assert_eq!(key(P384), [Algorithm::ES384]);
    assert_eq!(key(ED25519), [Algorithm::EdDSA]);
    let secret = VerifyingKey::from_secret(&[7; 64], &ALL).unwrap();
    assert_eq!(secret.algorithms, ALL[..3]);
}

#[test]
fn a_key_for_an_algorithm_that_is_not_allowed_is_refused() {
    assert_eq!(
        error(VerifyingKey::from_pem(RSA.as_bytes(), &[Algorithm::HS256])),
        "this is an RSA key, which none of the algorithms [HS256] uses",
    );
    assert!(matches!(
        VerifyingKey::from_secret(&[7; 32], &[Algorithm::ES256]),
        Err(KeyError::OtherAlgorithm { kind: KeyKind::Secret, .. })
    ));
    assert!(matches!(
        VerifyingKey::from_pem(P384.as_bytes(), &[Algorithm::ES256]),
        Err(KeyError::OtherAlgorithm { kind: KeyKind::P384, .. })
    ));
    assert!(matches!(VerifyingKey::from_pem(RSA.as_bytes(), &[]), Err(KeyError::NoAlgorithm)));
    assert!(matches!(VerifyingKey::from_secret(&[7; 32], &[]), Err(KeyError::NoAlgorithm)));
}

/// RFC 7518, section 3.2: at least as long as the hash.
#[test]
fn a_secret_is_as_long_as_each_of_its_algorithms_needs() {
    for (algorithm, needed) in
        [(Algorithm::HS256, 32), (Algorithm::HS384, 48), (Algorithm::HS512, 64)]
    {
        let of = |bytes: usize, algorithms: &[Algorithm]| {
            VerifyingKey::from_secret(&vec![7; bytes], algorithms)
        };
        assert!(of(needed, &[algorithm]).is_ok());
        let short = needed - 1;
        let message =
            format!("a secret for {algorithm:?} has at least {needed} bytes, this one has {short}");
        assert_eq!(error(of(short, &[algorithm])), message);
        assert_eq!(error(of(short, &[Algorithm::RS256, algorithm])), message);
    }
}

#[test]
fn weak_keys_are_refused() {
    assert_eq!(
        error(VerifyingKey::from_secret(b"secret", &ALL)),
        "a secret for HS256 has at least 32 bytes, this one has 6",
    );
    let short = include_str!("../test_keys/rsa1024.public.pem");
    assert_eq!(
        error(VerifyingKey::from_pem(short.as_bytes(), &ALL)),
        "an RSA key for tokens has 2048 to 8192 bits, this one has 1024",
    );
}

#[test]
fn a_text_that_is_not_a_public_key_is_refused() {
    let private = include_str!("../test_keys/rsa.private.pem");
    let of = |text: &str| VerifyingKey::from_pem(text.as_bytes(), &ALL);
    assert!(matches!(of(private), Err(KeyError::Private)));
    let p521 = include_str!("../test_keys/p521.public.pem");
    assert!(matches!(of(p521), Err(KeyError::Curve)));
    // Its points are as long as those of P-256.
    let secp256k1 = include_str!("../test_keys/secp256k1.public.pem");
    assert!(matches!(of(secp256k1), Err(KeyError::NoPoint("P-256"))));
    let certificate = RSA.replace("PUBLIC KEY", "CERTIFICATE");
    for text in ["", "secret", &certificate, &RSA[..RSA.len() / 2]] {
        assert!(matches!(of(text), Err(KeyError::Pem(_))), "{text}");
    }
}

#[test]
fn a_key_is_never_printed() {
    let algorithms = [Algorithm::HS256];
    let secret = b"correct horse battery staple, and more";
    let key = VerifyingKey::from_secret(secret, &algorithms).unwrap();
    assert_eq!(format!("{key:?}"), "VerifyingKey { id: None, algorithms: [HS256], .. }");
}
