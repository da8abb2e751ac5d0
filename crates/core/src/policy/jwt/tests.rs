//! Valid tokens, and every way in which a token can be invalid.

mod fetched;

use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::time::Span;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const SECRET: &[u8; 32] = b"a secret as long as SHA-256 has ";
const RSA_PUBLIC: &str = include_str!("test_keys/rsa.public.pem");
/// One algorithm of each kind of key.
const ALL: [Algorithm; 5] =
    [Algorithm::HS256, Algorithm::RS256, Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA];
/// The algorithms of long secrets, and the others of RSA keys.
const FURTHER: [Algorithm; 7] = [
    Algorithm::HS384,
    Algorithm::HS512,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);

/// A private key for each algorithm.
fn signing_key(algorithm: Algorithm) -> EncodingKey {
    match algorithm.family() {
        AlgorithmFamily::Rsa => {
            EncodingKey::from_rsa_pem(include_bytes!("test_keys/rsa.private.pem"))
        }
        AlgorithmFamily::Ec if algorithm == Algorithm::ES384 => {
            EncodingKey::from_ec_pem(include_bytes!("test_keys/p384.private.pem"))
        }
        AlgorithmFamily::Ec => {
            EncodingKey::from_ec_pem(include_bytes!("test_keys/p256.private.pem"))
        }
        AlgorithmFamily::Ed => {
            EncodingKey::from_ed_pem(include_bytes!("test_keys/ed25519.private.pem"))
        }
        AlgorithmFamily::Hmac => Ok(EncodingKey::from_secret(&secret(algorithm))),
    }
    .unwrap()
}

/// The secret for HMAC by this algorithm.
fn secret(algorithm: Algorithm) -> Vec<u8> {
    if algorithm == Algorithm::HS256 { SECRET.to_vec() } else { SECRET.repeat(2) }
}

/// The public key for each algorithm.
fn verifying_key(algorithm: Algorithm) -> VerifyingKey {
    let allowed = if ALL.contains(&algorithm) { &ALL[..] } else { &[algorithm] };
    let pem = match algorithm.family() {
        AlgorithmFamily::Hmac => {
            return VerifyingKey::from_secret(&secret(algorithm), allowed).unwrap();
        }
        AlgorithmFamily::Rsa => RSA_PUBLIC,
        AlgorithmFamily::Ec if algorithm == Algorithm::ES384 => {
            include_str!("test_keys/p384.public.pem")
        }
        AlgorithmFamily::Ec => include_str!("test_keys/p256.public.pem"),
        AlgorithmFamily::Ed => include_str!("test_keys/ed25519.public.pem"),
    };
    VerifyingKey::from_pem(pem.as_bytes(), allowed).unwrap()
}

fn verifier(change: impl FnOnce(&mut JwtSettings)) -> TokenVerifier {
    let keys = TokenKeys::Known(vec![verifying_key(Algorithm::HS256)]);
    let mut settings = JwtSettings { leeway: Span::ZERO, ..JwtSettings::new(keys, ALL.to_vec()) };
    change(&mut settings);
    TokenVerifier::new(settings, vec!["plan".into()], Secret::from_bytes([1; 16]))
}

fn signed(algorithm: Algorithm, claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, &signing_key(algorithm)).unwrap()
}

fn user(verifier: &TokenVerifier, token: &str, now: Timestamp) -> Option<String> {
    verifier.verify(token.as_bytes(), now).ok()?.get("sub").map(str::to_owned)
}

fn exp_in(span: Span) -> u64 {
    NOW.plus(span).as_secs()
}

#[test]
fn a_token_signed_by_any_supported_algorithm_is_valid() {
    for algorithm in ALL.into_iter().chain(FURTHER) {
        let verifier =
            verifier(|settings| settings.keys = TokenKeys::Known(vec![verifying_key(algorithm)]));
        let token = signed(algorithm, &json!({ "sub": "ann", "exp": exp_in(Span::SECOND) }));
        assert_eq!(user(&verifier, &token, NOW).as_deref(), Some("ann"), "{algorithm:?}");
    }
}

#[test]
fn a_changed_token_is_not_valid() {
    for algorithm in ALL.into_iter().chain(FURTHER) {
        let verifier =
            verifier(|settings| settings.keys = TokenKeys::Known(vec![verifying_key(algorithm)]));
        let token = signed(algorithm, &json!({ "sub": "ann" }));
        let other = signed(algorithm, &json!({ "sub": "bob" }));
        let (signed_part, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        assert_eq!(user(&verifier, &format!("{signed_part}.{signature}"), NOW), None);
        assert_eq!(user(&verifier, &format!("{signed_part}."), NOW), None);
        assert_eq!(user(&verifier, signed_part, NOW), None);
    }
}

#[test]
fn a_token_without_signature_is_never_valid() {
    let verifier = verifier(|_| {});
    // {"alg":"none"}, {"alg":"None"}, {"alg":""} and {}, each before {"sub":"ann"}.
    let headers = ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIn0", "eyJhbGciOiIifQ", "e30"];
    for header in headers {
        for signature in ["", "AAAA"] {
            let token = format!("{header}.eyJzdWIiOiJhbm4ifQ.{signature}");
            assert_eq!(user(&verifier, &token, NOW), None, "{token}");
        }
    }
}

#[test]
fn a_public_key_is_never_used_as_a_secret() {
    let pem = RSA_PUBLIC.as_bytes();
    let der = DecodingKey::from_rsa_pem(pem).unwrap().try_get_as_bytes().unwrap().to_vec();
    let mut confused = verifying_key(Algorithm::RS256);
    confused.algorithms = ALL.to_vec();
    for key in [verifying_key(Algorithm::RS256), confused] {
        let verifier = verifier(|settings| settings.keys = TokenKeys::Known(vec![key]));
        for secret in [pem, pem.trim_ascii(), &der] {
            let key = EncodingKey::from_secret(secret);
            let token = encode(&Header::default(), &json!({ "sub": "ann" }), &key).unwrap();
            assert_eq!(user(&verifier, &token, NOW), None);
        }
    }
}

#[test]
fn an_algorithm_that_the_settings_do_not_allow_is_refused() {
    let token = encode(
        &Header::new(Algorithm::HS512),
        &json!({ "sub": "ann" }),
        &signing_key(Algorithm::HS512),
    );
    assert_eq!(user(&verifier(|_| {}), &token.unwrap(), NOW), None);
    let nothing_allowed = verifier(|settings| {
        let useless = VerifyingKey { algorithms: vec![], ..verifying_key(Algorithm::HS256) };
        settings.keys = TokenKeys::Known(vec![useless]);
    });
    assert_eq!(
        user(&nothing_allowed, &signed(Algorithm::HS256, &json!({ "sub": "ann" })), NOW),
        None
    );
}

/// A key verifies by the algorithms that the settings allow and no other, also if it could.
#[test]
fn a_key_verifies_by_the_allowed_algorithms_only() {
    for signing in FURTHER {
        let claims = json!({ "sub": "ann" });
        for allowed in FURTHER {
            let key = verifying_key(allowed);
            let verifier = verifier(|settings| settings.keys = TokenKeys::Known(vec![key]));
            let holds = user(&verifier, &signed(signing, &claims), NOW).is_some();
            assert_eq!(holds, signing == allowed, "{signing:?} where {allowed:?} is allowed");
        }
    }
}

/// A token whose header is this text.
fn with_header(header: &str, claims: &str, algorithm: Algorithm) -> String {
    let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &signing_key(algorithm), algorithm);
    format!("{message}.{}", signature.unwrap())
}

/// RFC 9864 gives the algorithm `EdDSA` with this curve a name of its own.
#[test]
fn a_token_may_call_its_algorithm_ed25519() {
    let key = verifying_key(Algorithm::EdDSA);
    let verifier = verifier(|settings| settings.keys = TokenKeys::Known(vec![key]));
    let token = |alg: &str| {
        let header = format!(r#"{{"alg":"{alg}","typ":"JWT"}}"#);
        with_header(&header, r#"{"sub":"ann"}"#, Algorithm::EdDSA)
    };
    let names = ["Ed25519", "EdDSA", "ed25519", "Ed448", "ES256", "none"];
    let holds = names.map(|alg| user(&verifier, &token(alg), NOW).is_some());
    assert_eq!(holds, [true, true, false, false, false, false]);
}

/// Two readers could take different values of a name that occurs twice.
#[test]
fn a_token_whose_parts_are_no_objects_with_distinct_names_is_not_valid() {
    let verifier = verifier(|_| {});
    let header = r#"{"alg":"HS256"}"#;
    let claims = r#"{"sub":"ann"}"#;
    let holds = |header: &str, claims: &str| {
        user(&verifier, &with_header(header, claims, Algorithm::HS256), NOW).is_some()
    };
    assert!(holds(header, claims));
    for header in [r#"{"alg":"HS256","alg":"HS256"}"#, r#"{"alg":"HS256","kid":"a","kid":"b"}"#] {
        assert!(!holds(header, claims), "{header}");
    }
    for (header, claims) in [
        (r#"["HS256",null,null]"#, claims),
        (header, "[null,null,null,null,null]"),
        (header, r#""ann""#),
        (header, "1"),
        // Also what is not used must be JSON: half of a pair of surrogates is no character.
        (r#"{"alg":"HS256","x":"\ud800"}"#, claims),
        (r#"{"alg":"HS256","x":{"\udc00":1}}"#, claims),
        (header, r#"{"sub":"ann","x":"\ud800"}"#),
    ] {
        let token = with_header(header, claims, Algorithm::HS256);
        assert!(verifier.verify(token.as_bytes(), NOW).is_err(), "{header} {claims}");
    }
    for name in ["sub", "exp", "nbf", "iss", "aud"] {
        let claims = format!(r#"{{"sub":"ann","{name}":9e9,"{name}":9e9}}"#);
        assert!(!holds(header, &claims), "{claims}");
    }
}

#[test]
fn a_token_is_checked_against_the_time_of_each_request() {
    let verifier = verifier(|_| {});
    let minute = Span::from_secs(60);
    let token = signed(
        Algorithm::HS256,
        &json!({
            "sub": "ann", "nbf": NOW.as_secs(), "exp": exp_in(minute),
        }),
    );
    let last = NOW.plus(minute).minus(Span::from_micros(1));
    let early = NOW.minus(Span::from_micros(1));
    assert_eq!(user(&verifier, &token, early), None);
    assert_eq!(user(&verifier, &token, NOW).as_deref(), Some("ann"));
    assert_eq!(verifier.verified.len(), 1);
    assert_eq!(user(&verifier, &token, last).as_deref(), Some("ann"));
    assert_eq!(user(&verifier, &token, NOW.plus(minute)), None);
    assert_eq!(user(&verifier, &token, early), None);
}

/// A cached token ends at the same time as one that is verified.
#[test]
fn a_token_is_valid_a_little_longer_for_clocks_that_differ() {
    let secs = Span::from_secs;
    for (leeway, early, late) in [
        (JwtSettings::DEFAULT_LEEWAY, secs(30), secs(30)),
        (JwtSettings::MAX_LEEWAY, secs(300), secs(300)),
        (Span::ZERO, Span::ZERO, Span::ZERO),
    ] {
        let verifier = verifier(|settings| settings.leeway = leeway);
        let times = json!({ "sub": "ann", "nbf": NOW.as_secs(), "exp": exp_in(secs(60)) });
        let token = signed(Algorithm::HS256, &times);
        let holds = |now| user(&verifier, &token, now).is_some();
        let begin = NOW.minus(early);
        let end = NOW.plus(secs(60)).plus(late);
        let tick = Span::from_micros(1);
        for _ in 0..2 {
            assert!(!holds(begin.minus(tick)) && holds(begin), "{leeway}");
            assert!(holds(end.minus(tick)) && !holds(end), "{leeway}");
        }
    }
}

#[test]
fn only_valid_tokens_are_cached() {
    let verifier = verifier(|_| {});
    let old = signed(Algorithm::HS256, &json!({ "sub": "ann", "exp": 1 }));
    for token in ["", "a.b.c", &old, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."] {
        assert_eq!(user(&verifier, token, NOW), None);
    }
    assert_eq!(verifier.verified.len(), 0);
}

#[test]
fn the_cache_of_tokens_is_bounded() {
    let verifier = verifier(|_| {});
    for number in 0..MAX_REMEMBERED + 500 {
        let token = signed(Algorithm::HS256, &json!({ "sub": number }));
        assert!(verifier.verify(token.as_bytes(), NOW).is_ok());
    }
    assert!((1..=MAX_REMEMBERED).contains(&verifier.verified.len()));
}

#[test]
fn issuer_and_audience_must_be_among_the_configured_ones() {
    let verifier = verifier(|settings| {
        settings.issuers = vec!["https://issuer".into(), "https://old".into()];
        settings.audiences = vec!["gateway".into(), "proxy".into()];
    });
    let cases = [
        (json!({ "iss": "https://issuer", "aud": "gateway" }), true),
        (json!({ "iss": "https://issuer", "aud": ["other", "gateway"] }), true),
        (json!({ "iss": "https://old", "aud": "proxy" }), true),
        (json!({ "iss": "https://issuer/", "aud": "gateway" }), false),
        (json!({ "iss": "https://issuer", "aud": "Gateway" }), false),
        (json!({ "iss": "https://issuer", "aud": [] }), false),
        (json!({ "iss": "https://issuer" }), false),
        (json!({ "aud": "gateway" }), false),
        (json!({ "iss": 1, "aud": "gateway" }), false),
        // An issuer is one text (RFC 7519, section 4.1.1).
        (json!({ "iss": ["https://issuer"], "aud": "gateway" }), false),
        (json!({ "iss": ["evil", "https://issuer"], "aud": "gateway" }), false),
        (json!({ "iss": null, "aud": "gateway" }), false),
    ];
    for (claims, holds) in cases {
        let token = signed(Algorithm::HS256, &claims);
        assert_eq!(verifier.verify(token.as_bytes(), NOW).is_ok(), holds, "{claims}");
    }
}

#[test]
fn without_keys_no_token_is_valid() {
    let verifier = verifier(|settings| settings.keys = TokenKeys::Known(vec![]));
    for algorithm in ALL {
        assert_eq!(user(&verifier, &signed(algorithm, &json!({ "sub": "ann" })), NOW), None);
    }
}

#[test]
fn an_audience_that_is_not_configured_does_not_matter() {
    let token = signed(Algorithm::HS256, &json!({ "sub": "ann", "aud": "other", "iss": "other" }));
    assert_eq!(user(&verifier(|_| {}), &token, NOW).as_deref(), Some("ann"));
}

#[test]
fn a_token_that_names_its_key_is_checked_with_that_key_only() {
    let with_id = |algorithm, id: Option<&str>| VerifyingKey {
        id: id.map(Into::into),
        ..verifying_key(algorithm)
    };
    let token = |kid: Option<&str>| {
        let header = Header { kid: kid.map(Into::into), ..Header::default() };
        encode(&header, &json!({ "sub": "ann" }), &signing_key(Algorithm::HS256)).unwrap()
    };
    let named = verifier(|settings| {
        settings.keys = TokenKeys::Known(vec![
            with_id(Algorithm::RS256, Some("a")),
            with_id(Algorithm::HS256, Some("b")),
        ]);
    });
    let nameless = verifier(|settings| {
        settings.keys = TokenKeys::Known(vec![with_id(Algorithm::HS256, None)])
    });
    let cases = [
        (&named, Some("b"), true),
        (&named, Some("a"), false),
        (&named, Some("c"), false),
        (&named, None, true),
        (&nameless, Some("c"), true),
        (&nameless, None, true),
    ];
    for (verifier, kid, holds) in cases {
        assert_eq!(user(verifier, &token(kid), NOW).is_some(), holds, "{kid:?}");
    }
}

#[test]
fn a_token_with_an_unknown_extension_is_not_valid() {
    let header = Header { crit: Some(vec!["exp".into()]), ..Header::default() };
    let token = encode(&header, &json!({ "sub": "ann" }), &signing_key(Algorithm::HS256));
    assert_eq!(user(&verifier(|_| {}), &token.unwrap(), NOW), None);
    // The member must be a list with names: any other value is no better than an unknown extension.
    for crit in ["null", "[]", "false", "\"\""] {
        let header = format!("{{\"alg\":\"HS256\",\"crit\":{crit}}}");
        let token = with_header(&header, "{\"sub\":\"ann\"}", Algorithm::HS256);
        assert_eq!(user(&verifier(|_| {}), &token, NOW), None, "{crit}");
    }
}

#[test]
fn a_token_that_is_too_long_is_not_verified() {
    let verifier = verifier(|_| {});
    let padded =
        |length: usize| signed(Algorithm::HS256, &json!({ "sub": "ann", "x": "x".repeat(length) }));
    let fits = padded(11 * 1024);
    assert!(fits.len() < MAX_TOKEN);
    assert_eq!(user(&verifier, &fits, NOW).as_deref(), Some("ann"));
    assert_eq!(user(&verifier, &padded(13 * 1024), NOW), None);
}

#[test]
fn only_claims_that_keys_use_are_kept() {
    let token = signed(Algorithm::HS256, &json!({ "sub": "ann", "plan": "pro", "mail": "a@b" }));
    let claims = verifier(|_| {}).verify(token.as_bytes(), NOW).unwrap();
    assert_eq!(claims.get("plan"), Some("pro"));
    assert_eq!(claims.get("mail"), None);
}

proptest! {
    #[test]
    fn no_bytes_make_the_verifier_panic_or_believe(
        token in proptest::collection::vec(any::<u8>(), 0..64),
        parts in "[A-Za-z0-9_=-]{0,20}(\\.[A-Za-z0-9_-]{0,20}){0,4}",
    ) {
        let verifier = verifier(|_| {});
        prop_assert!(verifier.verify(&token, NOW).is_err());
        prop_assert!(verifier.verify(parts.as_bytes(), NOW).is_err());
    }
}
