//! The identity of a counter: its policy's name, its algorithm and its currency, and not its limit.
//!
//! So a counter survives a change of the limit, by a reload or by a plan of the client. The
//! order in which the parts are digested is a format, as it is for the values of a key.

use crate::algorithm::Algorithm;
use crate::digest::{Counter, Digest, Key};
use crate::price::Denomination;

/// A second counter that a policy keeps for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Beside {
    /// The refusals of the client.
    Refusals = 1,
    /// The ban of the client.
    Ban = 2,
    /// The units that were admitted beyond the limit because the upstream had room.
    Beyond = 3,
}

impl Beside {
    /// The key of this counter, derived from `own`, the key of the policy's main counter.
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

/// The identity of a policy, which is the same after a reload. Units of money are counted apart from
/// other units.
pub(super) fn identity(name: &str, algorithm: &Algorithm, money: Option<Denomination>) -> Counter {
    Counter::of(|digest| {
        digest.value(name.as_bytes());
        add_kind(digest, algorithm);
        add_money(digest, money);
    })
}

/// The identity of the counter for preflights that the policy of this name does not count.
pub(super) fn preflights_of(name: &str, algorithm: &Algorithm) -> Counter {
    Counter::of(|digest| {
        digest.value(b"preflights");
        digest.value(name.as_bytes());
        add_kind(digest, algorithm);
    })
}

/// The identity under which the limits of single keys are stored for a policy of this name.
pub(super) fn override_of(name: &str, money: Option<Denomination>) -> Counter {
    Counter::of(|digest| {
        digest.value(b"override");
        digest.value(name.as_bytes());
        add_money(digest, money);
    })
}

/// The currency and how finely it is counted.
fn add_money(digest: &mut Digest, money: Option<Denomination>) {
    if let Some(denomination) = money {
        digest.value(b"money");
        digest.value(denomination.to_string().as_bytes());
    }
}

/// The algorithm and the window. A state of another algorithm or window has another
/// meaning.
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
    if let Algorithm::FixedWindow(fixed) = algorithm {
        if let Some(zone) = fixed.zone() {
            digest.value(zone.as_bytes());
        }
    }
}
