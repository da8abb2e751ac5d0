//! The fuzz target of leases.

use tollgate_core::digest::Secret;

use super::{LeaseToken, Sealer, Unsealed};

const SECRET: Secret = Secret::from_bytes([7; 16]);

/// A text that should be a lease, or what a lease says, sealed here and then changed: only what
/// was sealed is opened, and as it was.
pub fn leases(input: &[u8]) {
    let sealer = Sealer::default();
    let text = String::from_utf8_lossy(input);
    let opened = sealer.open(&text, SECRET);
    assert!(!matches!(opened, Unsealed::Lease(_)), "a text is opened that was not sealed");
    let Some((&[at, other], bytes)) = input.split_first_chunk() else { return };
    let Some(token) = LeaseToken::decode(bytes) else { return };
    // Names are cut when they are written.
    let token = LeaseToken::decode(&token.encode()).expect("what was written can be read");
    let sealed = sealer.ready(SECRET).expect("the system has random numbers").seal(&token);
    let opened = sealer.open(&sealed, SECRET);
    assert_eq!(opened, Unsealed::Lease(Box::new(token)), "a lease has changed");
    let mut changed = sealed.clone().into_bytes();
    let at = usize::from(at) * changed.len() / 256;
    changed[at] = other;
    let changed = String::from_utf8_lossy(&changed);
    if changed != sealed {
        let opened = sealer.open(&changed, SECRET);
        assert!(!matches!(opened, Unsealed::Lease(_)), "a lease that was changed is opened");
    }
    let elsewhere = sealer.open(&sealed, Secret::from_bytes([8; 16]));
    assert_eq!(elsewhere, Unsealed::Foreign, "another store opens a lease");
}
