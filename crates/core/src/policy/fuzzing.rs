//! Bearer tokens that are signed with the correct key. A verifier reads the claims of a
//! token only if its signature is valid.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::Value;

#[cfg(feature = "agents")]
pub use super::agent::fuzzing::agents;
use crate::digest::Secret;
use crate::policy::jwt::TokenVerifier;
use crate::policy::{JwtSettings, TokenKeys, VerifyToken, VerifyingKey};
use crate::time::Timestamp;

const SECRET: [u8; 32] = [5; 32];
/// 2026-11-21T07:28:46Z.
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn verifier() -> TokenVerifier {
    let algorithms = vec![Algorithm::HS256];
    let key = VerifyingKey::from_secret(&SECRET, &algorithms).expect("a key");
    let settings = JwtSettings::new(TokenKeys::Known(vec![key]), algorithms);
    TokenVerifier::new(settings, vec!["org.id".into()], Secret::from_bytes([3; 16]))
}

/// A bearer token: its header is the first line, and its claims follow.
pub fn jwt(input: &[u8]) {
    static VERIFIER: LazyLock<TokenVerifier> = LazyLock::new(verifier);
    let verifier = &*VERIFIER;
    assert!(verifier.verify(input, NOW).is_err(), "a token without a signature is not valid");
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let header = &input[..end];
    let claims = input.get(end + 1..).unwrap_or_default();
    let signed = [URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims)].join(".");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
    let signature = hmac::sign(&key, signed.as_bytes());
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    let Ok(held) = verifier.verify(token.as_bytes(), NOW) else { return };
    let header: Value = serde_json::from_slice(header).expect("a valid token has a JSON header");
    assert_eq!(
        header.get("alg"),
        Some(&Value::from("HS256")),
        "the token has not chosen its algorithm"
    );
    let Ok(Value::Object(claims)) = serde_json::from_slice(claims) else {
        panic!("the claims of a valid token are an object");
    };
    if let Some(Value::String(subject)) = claims.get("sub") {
        let is_short = (1..=256).contains(&subject.len());
        assert_eq!(held.get("sub"), is_short.then_some(&**subject));
    }
    let again = verifier.verify(token.as_bytes(), NOW).expect("a valid token stays valid");
    assert_eq!(again.get("sub"), held.get("sub"));
    assert_eq!(again.get("org.id"), held.get("org.id"));
    for (at, byte) in [(0, b'A'), (signed.len() / 2, b'Q'), (signed.len() + 1, b'_')] {
        let mut forged = token.clone().into_bytes();
        if std::mem::replace(&mut forged[at], byte) != byte {
            assert!(verifier.verify(&forged, NOW).is_err(), "a forged token is not valid");
        }
    }
}
