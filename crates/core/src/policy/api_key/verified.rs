//! The texts of keys that a thread has found to be right before: their checksum and their hash need
//! not be computed again. What a key may do is looked up each time.

use std::cell::RefCell;
use std::hash::BuildHasherDefault;

use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

use crate::api_keys::{KeyDigest, Sought};
use crate::digest::DigestHasher;

/// The most texts of one thread. An entry takes about 100 bytes.
const MAX_KNOWN: usize = 16_384;

type Known = Cache<u128, (Sought, KeyDigest), UnitWeighter, BuildHasherDefault<DigestHasher>>;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::new(Cache::with(
        MAX_KNOWN,
        MAX_KNOWN as u64,
        UnitWeighter,
        BuildHasherDefault::default(),
        DefaultLifecycle::default(),
    ));
}

/// What a text is looked up by, and its hash, if it was right before. `text` is its digest under a
/// secret, so no client can make a text that is taken for another one.
pub(super) fn get(text: u128) -> Option<(Sought, KeyDigest)> {
    KNOWN.with_borrow(|known| known.get(&text).copied())
}

/// A text is right. Invented ones are never here, so they displace none.
pub(super) fn insert(text: u128, sought: Sought, digest: KeyDigest) {
    KNOWN.with_borrow_mut(|known| known.insert(text, (sought, digest)));
}
