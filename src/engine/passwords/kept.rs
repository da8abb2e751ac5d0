//! Results of checks, for a bounded time and in a bounded number.

use std::collections::HashMap;
use std::mem;

use parking_lot::Mutex;
use tollgate_core::time::{Span, Timestamp};

/// The keyed digest that a result is kept under.
pub type Tag = [u8; 32];

/// The most results of one kind.
const MAX_RESULTS: usize = 10_000;

/// Results of checks. Those of wrong passwords are apart, so that they displace no right one.
#[derive(Debug, Default)]
pub struct KeptResults {
    right: Mutex<Kept>,
    wrong: Mutex<Kept>,
}

/// Results of one kind, with the time until which they are valid. If the recent ones are half of
/// what may be kept, they become the earlier ones, which are then forgotten.
#[derive(Debug, Default)]
struct Kept {
    recent: HashMap<Tag, Timestamp>,
    earlier: HashMap<Tag, Timestamp>,
}

impl KeptResults {
    /// The result that is kept under `tag`.
    pub fn get(&self, tag: &Tag, now: Timestamp) -> Option<bool> {
        if self.right.lock().is_valid(tag, now) {
            return Some(true);
        }
        self.wrong.lock().is_valid(tag, now).then_some(false)
    }

    /// Keeps a result of `now`.
    pub fn keep(&self, tag: Tag, is_right: bool, now: Timestamp) {
        let kept = if is_right { &self.right } else { &self.wrong };
        kept.lock().insert(tag, now.plus(validity(is_right)));
    }

    /// The number of results.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        let len = |kept: &Mutex<Kept>| {
            let kept = kept.lock();
            kept.recent.len() + kept.earlier.len()
        };
        len(&self.right) + len(&self.wrong)
    }
}

/// How long a result is kept.
const fn validity(is_right: bool) -> Span {
    if is_right { Span::from_secs(300) } else { Span::from_secs(10) }
}

impl Kept {
    fn is_valid(&self, tag: &Tag, now: Timestamp) -> bool {
        let until = self.recent.get(tag).or_else(|| self.earlier.get(tag));
        until.is_some_and(|until| now < *until)
    }

    fn insert(&mut self, tag: Tag, until: Timestamp) {
        if self.recent.len() >= MAX_RESULTS / 2 {
            self.earlier = mem::take(&mut self.recent);
        }
        self.recent.insert(tag, until);
    }
}
