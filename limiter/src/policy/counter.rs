//! What makes a counter the same counter: its policy's name and how it counts,
//! not how much it allows.
//!
//! So a changed limit keeps the counters, over reloads and between the plans of
//! a client. The order in which things are digested is a format, as it is for
//! the values of a key.

use crate::algorithm::Algorithm;
use crate::digest::{Counter, Digest, Key};

/// A counter that a policy keeps of a client beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Beside {
    /// How often the client was refused.
    Refusals = 1,
    /// Whether the client is banned for it.
    Ban = 2,
    /// What was admitted beyond the limit because the upstream had room.
    Beyond = 3,
}

impl Beside {
    /// The key of this counter, beside the one that the policy has under `own`.
    pub fn key(self, own: Key, algorithm: &Algorithm) -> Key {
        Key { counter: self.counter(own.counter, algorithm), ..own }
    }

    pub(super) fn counter(self, own: Counter, algorithm: &Algorithm) -> Counter {
        Counter::of(|digest| {
            digest.value(&own.bits().to_be_bytes());
            digest.tag(self as u8);
            add_kind(digest, algorithm);
        })
    }
}

/// What makes a policy the same policy over reloads.
pub(super) fn identity(name: &str, algorithm: &Algorithm) -> Counter {
    Counter::of(|digest| {
        digest.value(name.as_bytes());
        add_kind(digest, algorithm);
    })
}

/// What counts the preflights that a policy of this name spares.
pub(super) fn preflights_of(name: &str, algorithm: &Algorithm) -> Counter {
    Counter::of(|digest| {
        digest.value(b"preflights");
        digest.value(name.as_bytes());
        add_kind(digest, algorithm);
    })
}

/// Under what other limits of a principal are kept for a policy of this name.
pub(super) fn override_of(name: &str) -> Counter {
    Counter::of(|digest| {
        digest.value(b"override");
        digest.value(name.as_bytes());
    })
}

/// How is counted: states of another kind or window would mean something else.
fn add_kind(digest: &mut Digest, algorithm: &Algorithm) {
    let (kind, buckets) = match algorithm {
        Algorithm::SlidingWindow(_) => (1, 1),
        Algorithm::SubWindows(sub_windows) => (2, sub_windows.buckets()),
        Algorithm::FixedWindow(fixed) if fixed.zone().is_some() => (8, 1),
        Algorithm::FixedWindow(_) => (3, 1),
        Algorithm::TokenBucket(_) => (4, 1),
        Algorithm::SlidingLog(_) => (5, 1),
        Algorithm::LeakyBucket(_) => (6, 1),
        Algorithm::Concurrency(_) => (7, 1),
        Algorithm::Ban(_) => (9, 1),
    };
    digest.tag(kind);
    digest.value(&buckets.to_be_bytes());
    digest.value(&algorithm.window().as_micros().to_be_bytes());
    if let Algorithm::FixedWindow(fixed) = algorithm
        && let Some(zone) = fixed.zone()
    {
        digest.value(zone.as_bytes());
    }
}
