//! Sets with members that are used, ignored, or left out.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SET: &str = include_str!("../test_keys/set.json");
/// Mistakes that issuers make, beside one key that can be used.
const ODD: &str = include_str!("../test_keys/odd_set.json");
const PUBLIC: [Algorithm; 4] =
    [Algorithm::RS256, Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA];

fn read(set: &Value, algorithms: &[Algorithm]) -> Result<UsableKeys, KeyError> {
    UsableKeys::read(set.to_string().as_bytes(), algorithms)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn ids(set: &UsableKeys) -> Vec<&str> {
    set.keys.iter().filter_map(|key| key.id.as_deref()).collect()
}

fn reasons(set: &UsableKeys) -> Vec<String> {
    set.left_out.iter().map(ToString::to_string).collect()
}

#[test]
fn a_set_gives_the_keys_for_the_algorithms_and_ignores_the_others() {
    let set = parsed(SET);
    let usable = read(&set, &PUBLIC).unwrap();
    assert_eq!(ids(&usable), ["rsa", "p256", "ed25519"]);
    assert_eq!((usable.passed_over, reasons(&usable)), (4, vec![]));
    assert_eq!(ids(&read(&set, &[Algorithm::ES256]).unwrap()), ["p256"]);
    // A key is used with the algorithm that the set names for it.
    let both = read(&set, &[Algorithm::PS256, Algorithm::RS256]).unwrap();
    assert_eq!(ids(&both), ["rsa", "other-algorithm"]);
    let algorithms: Vec<_> = both.keys.iter().map(|key| &key.algorithms[..]).collect();
    assert_eq!(algorithms, [[Algorithm::RS256], [Algorithm::PS256]]);
}

#[test]
fn a_set_may_name_the_algorithm_ed25519() {
    let mut key = parsed(SET)["keys"][2].clone();
    for (alg, is_used) in [("Ed25519", true), ("EdDSA", true), ("Ed448", false)] {
        key["alg"] = alg.into();
        let set = read(&json!({ "keys": [key] }), &PUBLIC);
        assert_eq!(set.is_ok(), is_used, "{alg}");
    }
}

/// Such keys were in use without a word, and verified nothing.
#[test]
fn a_key_that_cannot_verify_is_left_out_and_named() {
    let usable = read(&parsed(ODD), &PUBLIC).unwrap();
    assert_eq!((ids(&usable), usable.passed_over), (vec!["rsa"], 8));
    let zero = "begins with a zero byte; the number must be encoded without it";
    let no_rsa = "this is not an RSA key: its modulus is even, or its exponent is even, is 1 or \
                  has more than 33 bits";
    let expected = [
        ("\"leading-zero\"", format!("its \"n\" {zero}")),
        ("\"short\"", "an RSA key for tokens has 2048 to 8192 bits, this one has 1024".to_owned()),
        ("\"even-modulus\"", no_rsa.to_owned()),
        ("\"exponent-1\"", no_rsa.to_owned()),
        ("\"even-exponent\"", no_rsa.to_owned()),
        ("\"off-curve\"", "the point of this key is not on the curve P-256".to_owned()),
        ("number 8", "its \"x\" is missing, or is not in base64url without padding".to_owned()),
        ("\"half\"", "its \"y\" has 47 bytes instead of 48".to_owned()),
    ];
    let expected =
        expected.map(|(name, why)| format!("the key {name} of the set is left out: {why}"));
    assert_eq!(reasons(&usable), expected);
}

#[test]
fn whatever_a_member_is_the_others_are_used() {
    let broken = [
        json!({ "kty": "EC", "kid": "short", "crv": "P-256", "x": "AA", "y": "AA" }),
        json!({ "kty": "RSA", "kid": 7, "n": "AQAB", "e": "AQAB" }),
        json!({ "kty": "RSA", "kid": "e", "n": "AQAB" }),
        json!({ "kty": "RSA", "kid": "empty", "n": "", "e": "" }),
        json!({ "kty": "EC", "kid": "no-curve", "x": "AA", "y": "AA" }),
        json!("no map"),
        Value::Null,
    ];
    let mut set = parsed(SET);
    let members = set["keys"].as_array_mut().unwrap();
    members.extend(broken.clone());
    members.push(json!({ "kty": "oct", "kid": "published-secret", "k": "A".repeat(64) }));
    let usable = read(&set, &PUBLIC).unwrap();
    assert_eq!(ids(&usable), ["rsa", "p256", "ed25519"]);
    assert_eq!((usable.left_out.len(), usable.passed_over), (broken.len(), 12));
    let Err(KeyError::NoKey { left_out: Some(first), .. }) =
        read(&json!({ "keys": broken }), &PUBLIC)
    else {
        panic!("the first is named")
    };
    assert_eq!(first.name, "\"short\"");
    assert!(matches!(
        read(&json!({ "keys": [] }), &PUBLIC),
        Err(KeyError::NoKey { left_out: None, .. })
    ));
    for garbage in [json!([]), json!({}), json!({ "keys": {} }), json!("keys")] {
        assert!(matches!(read(&garbage, &PUBLIC), Err(KeyError::Jwks(_))), "{garbage}");
    }
}

#[test]
fn a_secret_of_a_set_is_as_long_as_its_algorithm_needs() {
    let member = |alg: &str, bytes: usize| {
        let k = URL_SAFE_NO_PAD.encode(vec![7; bytes]);
        json!({ "kty": "oct", "kid": alg, "alg": alg, "k": k })
    };
    let set = json!({ "keys": [member("HS256", 32), member("HS512", 63), member("HS384", 48)] });
    let usable = read(&set, &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512]).unwrap();
    assert_eq!(ids(&usable), ["HS256", "HS384"]);
    assert!(reasons(&usable)[0].contains("at least 64 bytes, this one has 63"));
}

#[test]
fn the_size_of_a_set_and_of_its_report_is_bounded() {
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43) });
    let of = |size: usize| read(&json!({ "keys": vec![key.clone(); size] }), &PUBLIC);
    assert_eq!(of(MAX_KEYS).unwrap().keys.len(), MAX_KEYS);
    assert!(matches!(of(MAX_KEYS + 1), Err(KeyError::TooManyKeys(MAX_KEYS))));
    let odd = json!({ "kty": "RSA", "kid": format!("\n{}", "x".repeat(10_000)) });
    let mut members = vec![odd; 1000];
    members.push(key);
    let usable = read(&json!({ "keys": members }), &PUBLIC).unwrap();
    assert_eq!((usable.left_out.len(), usable.passed_over), (MAX_REPORTED, 1000));
    assert!(usable.left_out[0].name.len() < 100, "{}", usable.left_out[0].name);
    assert!(usable.left_out[0].name.starts_with("\"\\nxx"));
}

proptest! {
    #[test]
    fn no_bytes_of_an_issuer_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let _ = UsableKeys::read(&bytes, &PUBLIC);
        for set in [SET, ODD] {
            let mut changed = set.as_bytes().to_vec();
            let at = at.index(changed.len());
            changed[at] = byte;
            let _ = UsableKeys::read(&changed, &PUBLIC);
        }
    }
}
