//! Keys that are fetched: the validity of tokens before the first set, and after a change
//! of keys.

use std::task::{Context, Poll, Waker};

use super::*;
use crate::policy::jwt::{KeySet, RefreshRequest};

/// A verifier with a set that has not been fetched yet.
fn awaiting() -> (Arc<KeySet>, TokenVerifier) {
    let set = Arc::new(KeySet::new());
    let keys = TokenKeys::Fetched(Arc::clone(&set));
    (set, verifier(|settings| settings.keys = keys))
}

/// The key for this algorithm with this name.
fn named(algorithm: Algorithm, id: &str) -> VerifyingKey {
    VerifyingKey { id: Some(id.into()), ..verifying_key(algorithm) }
}

/// A token that names its key.
fn token(algorithm: Algorithm, kid: &str, user: &str) -> String {
    let header = Header { kid: Some(kid.into()), ..Header::new(algorithm) };
    encode(&header, &json!({ "sub": user }), &signing_key(algorithm)).unwrap()
}

fn fault(verifier: &TokenVerifier, token: &str) -> Option<Fault> {
    verifier.verify(token.as_bytes(), NOW).err()
}

/// Whether an early refresh has been requested. Does not wait.
fn is_requested(refresh: &RefreshRequest) -> bool {
    let requested = std::pin::pin!(refresh.requested());
    requested.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[test]
fn before_the_first_set_a_token_is_pending() {
    let (set, verifier) = awaiting();
    let ann = token(Algorithm::ES256, "a", "ann");
    assert!(!set.has_come());
    assert_eq!(fault(&verifier, &ann), Some(Fault::Unverifiable));
    for text in ["key", "a.b.c"] {
        assert_eq!(fault(&verifier, text), Some(Fault::Opaque), "{text}");
    }
    assert_eq!(fault(&verifier, &format!("{ann}=")), Some(Fault::Ambiguous));
    assert_eq!(fault(&verifier, &"x".repeat(MAX_TOKEN + 1)), Some(Fault::Invalid));
    set.replace(vec![named(Algorithm::ES256, "a")]);
    assert!(set.has_come());
    assert_eq!(user(&verifier, &ann, NOW).as_deref(), Some("ann"));
    assert_eq!(
        fault(&verifier, &token(Algorithm::ES256, "b", "ann")),
        Some(Fault::Invalid),
        "the set has been fetched and lacks this key"
    );
}

/// This holds for cached tokens, too.
#[test]
fn a_removed_key_verifies_no_token() {
    let (set, verifier) = awaiting();
    let old = token(Algorithm::ES256, "a", "ann");
    let new = token(Algorithm::EdDSA, "b", "bob");
    let holds = || [&old, &new].map(|token| user(&verifier, token, NOW).is_some());
    let keys = || [named(Algorithm::ES256, "a"), named(Algorithm::EdDSA, "b")];
    let [a, _] = keys();
    set.replace(vec![a]);
    assert_eq!(holds(), [true, false]);
    set.replace(keys().into());
    assert_eq!(holds(), [true, true]);
    let [_, b] = keys();
    set.replace(vec![b]);
    assert_eq!(holds(), [false, true]);
    // Another key has the name of the old one.
    set.replace(vec![named(Algorithm::RS256, "a"), named(Algorithm::EdDSA, "b")]);
    assert_eq!(holds(), [false, true]);
    set.replace(keys().into());
    assert_eq!(holds(), [true, true]);
}

#[test]
fn only_an_unknown_key_requests_a_refresh() {
    let (set, verifier) = awaiting();
    let refresh = set.refresh();
    set.replace(vec![named(Algorithm::ES256, "a"), verifying_key(Algorithm::EdDSA)]);
    let forged = token(Algorithm::ES256, "a", "ann").replace("eyJzdWIi", "eyJzdWJi");
    let nameless = signed(Algorithm::RS256, &json!({ "sub": "ann" }));
    let strange = encode(
        &Header { kid: Some("b".into()), ..Header::new(Algorithm::HS512) },
        &json!({ "sub": "ann" }),
        &signing_key(Algorithm::HS512),
    );
    for token in [
        &token(Algorithm::ES256, "a", "ann"),
        &token(Algorithm::RS256, "a", "ann"),
        &forged,
        &nameless,
        &strange.unwrap(),
        "a.b.c",
    ] {
        let _ = verifier.verify(token.as_bytes(), NOW);
        assert!(!is_requested(&refresh), "{token}");
    }
    let _ = verifier.verify(token(Algorithm::ES256, "b", "ann").as_bytes(), NOW);
    assert!(is_requested(&refresh));
}

#[test]
fn many_unknown_keys_are_one_request() {
    let (set, verifier) = awaiting();
    set.replace(vec![named(Algorithm::ES256, "a")]);
    let refresh = set.refresh();
    for kid in 0..100 {
        let token = token(Algorithm::ES256, &kid.to_string(), "ann");
        assert_eq!(fault(&verifier, &token), Some(Fault::Invalid));
    }
    assert!(is_requested(&refresh));
    assert!(!is_requested(&refresh), "the request is reported once");
    refresh.clear();
    assert!(!is_requested(&refresh));
    assert_eq!(fault(&verifier, &token(Algorithm::ES256, "b", "ann")), Some(Fault::Invalid));
    refresh.clear();
    assert!(!is_requested(&refresh), "the fetched set contains the key");
    assert_eq!(verifier.verified.len(), 0, "failures are not cached");
}

#[test]
fn a_waiting_task_ends_when_the_set_is_dropped() {
    let (set, verifier) = awaiting();
    let refresh = set.refresh();
    drop((set, verifier));
    assert!(is_requested(&refresh));
}
