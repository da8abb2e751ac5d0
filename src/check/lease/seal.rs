//! Sealed leases: their owners can neither read nor change them.
//!
//! A sealed lease is the version, the number of the key, the nonce, and the encrypted lease with
//! its tag (AES-256-GCM-SIV, RFC 8452: a nonce that occurs twice does little harm), in base64url.
//! The key is derived from the secret of the store (HKDF, RFC 5869), so all nodes of one store
//! have it, and none has it in its configuration.

use std::cell::RefCell;
use std::rc::Rc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_core::digest::Secret;

use super::LeaseToken;

const VERSION: u8 = 2;
/// The bytes of the number of a key.
const KEY_ID: usize = 4;
const KEY_BYTES: usize = 32;
const HEAD: usize = 1 + KEY_ID + NONCE_LEN;
/// The most characters of a sealed lease.
const MAX_CHARS: usize = 6 * 1024;

/// Seals and opens the leases of one worker.
#[derive(Debug, Default)]
pub struct Sealer(RefCell<Option<Rc<Keys>>>);

/// What seals one lease. It is made before anything is charged, because it can fail.
#[derive(Debug)]
pub struct Seal {
    keys: Rc<Keys>,
    nonce: [u8; NONCE_LEN],
}

/// What comes of a text that should be a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsealed {
    /// It is one.
    Lease(Box<LeaseToken>),
    /// It was sealed under the secret of another store, or by a later version.
    Foreign,
    /// It is no lease, or was changed.
    Invalid,
}

struct Keys {
    secret: Secret,
    id: [u8; KEY_ID],
    key: LessSafeKey,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// The length of what is derived.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        KEY_BYTES + KEY_ID
    }
}

impl Keys {
    fn derive(secret: Secret) -> Result<Self, Unspecified> {
        let mut derived = [0; KEY_BYTES + KEY_ID];
        let pseudorandom = Salt::new(HKDF_SHA256, b"tollgate").extract(secret.expose());
        pseudorandom.expand(&[b"leases, version 1"], Length)?.fill(&mut derived)?;
        let (key, id) = derived.split_first_chunk::<KEY_BYTES>().ok_or(Unspecified)?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, key)?);
        Ok(Self { secret, id: *id.first_chunk().ok_or(Unspecified)?, key })
    }
}

impl Sealer {
    fn keys(&self, secret: Secret) -> Result<Rc<Keys>, Unspecified> {
        let mut known = self.0.borrow_mut();
        match &*known {
            Some(keys) if keys.secret == secret => Ok(Rc::clone(keys)),
            _ => {
                let keys = Rc::new(Keys::derive(secret)?);
                *known = Some(Rc::clone(&keys));
                Ok(keys)
            }
        }
    }

    /// A seal under the secret of the store. None if the system has no random numbers.
    pub fn ready(&self, secret: Secret) -> Option<Seal> {
        let keys = self.keys(secret).ok()?;
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).ok()?;
        Some(Seal { keys, nonce })
    }

    /// Opens a sealed lease.
    pub fn open(&self, text: &str, secret: Secret) -> Unsealed {
        let Some(mut sealed) = unpack(text) else { return Unsealed::Invalid };
        let Ok(keys) = self.keys(secret) else { return Unsealed::Invalid };
        let Some((head, encrypted)) = sealed.split_first_chunk_mut::<HEAD>() else {
            return Unsealed::Invalid;
        };
        if head[0] != VERSION || head[1..=KEY_ID] != keys.id {
            return Unsealed::Foreign;
        }
        let Some((_, nonce)) = head.split_last_chunk::<NONCE_LEN>() else {
            return Unsealed::Invalid;
        };
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = keys.key.open_in_place(nonce, Aad::from(&head[..]), encrypted);
        let token = opened.ok().and_then(|bytes| LeaseToken::decode(bytes));
        token.map_or(Unsealed::Invalid, |token| Unsealed::Lease(Box::new(token)))
    }
}

impl Seal {
    /// Seals a lease.
    pub fn seal(self, token: &LeaseToken) -> String {
        let Self { keys, nonce } = self;
        let mut sealed = Vec::with_capacity(512);
        sealed.push(VERSION);
        sealed.extend(keys.id);
        sealed.extend(nonce);
        let mut encrypted = token.encode();
        let head = Aad::from(&sealed[..]);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let is_sealed = keys.key.seal_in_place_append_tag(nonce, head, &mut encrypted);
        is_sealed.expect("a lease is much shorter than the longest text of the cipher");
        sealed.append(&mut encrypted);
        URL_SAFE_NO_PAD.encode(sealed)
    }
}

fn unpack(text: &str) -> Option<Vec<u8>> {
    let is_short = text.len() <= MAX_CHARS;
    is_short.then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::Timestamp;

    use super::*;

    fn token() -> LeaseToken {
        LeaseToken {
            id: 7,
            issued: Timestamp::from_micros(1),
            expires: Timestamp::from_micros(2),
            taken: Timestamp::from_micros(3),
            node: 4,
            place: "here".to_owned(),
            held: 5,
            charges: Vec::new(),
        }
    }

    const SECRET: Secret = Secret::from_bytes([1; 16]);

    impl Sealer {
        fn seal(&self, token: &LeaseToken, secret: Secret) -> Option<String> {
            self.ready(secret).map(|seal| seal.seal(token))
        }
    }

    #[test]
    fn any_node_with_the_secret_opens_a_lease_and_no_other() {
        let text = Sealer::default().seal(&token(), SECRET).expect("it is sealed");
        let opened = Sealer::default().open(&text, SECRET);
        assert_eq!(opened, Unsealed::Lease(Box::new(token())));
        let other = Sealer::default();
        assert_eq!(other.open(&text, Secret::from_bytes([2; 16])), Unsealed::Foreign);
        // The same sealer notices a new secret.
        assert_eq!(other.open(&text, SECRET), Unsealed::Lease(Box::new(token())));
        assert_ne!(other.seal(&token(), SECRET), other.seal(&token(), SECRET));
    }

    #[test]
    fn a_lease_that_was_changed_anywhere_is_invalid() {
        let sealer = Sealer::default();
        let text = sealer.seal(&token(), SECRET).expect("it is sealed");
        let bytes = URL_SAFE_NO_PAD.decode(&text).expect("it is base64");
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            let opened = sealer.open(&URL_SAFE_NO_PAD.encode(changed), SECRET);
            let expected = if index <= KEY_ID { Unsealed::Foreign } else { Unsealed::Invalid };
            assert_eq!(opened, expected, "{index}");
        }
        let long = "A".repeat(MAX_CHARS + 1);
        for text in ["", "AQ", "not base64!", &long] {
            assert_eq!(sealer.open(text, SECRET), Unsealed::Invalid, "{text}");
        }
        // By chance this is base64, and then begins with another version.
        assert!(!matches!(sealer.open(&text[1..], SECRET), Unsealed::Lease(_)));
    }
}
