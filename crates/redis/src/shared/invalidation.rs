//! How nodes learn that units were removed from counters, by a give-back or a reset. A state
//! that a [deny cache](super::deny) stored before that may refuse requests that the store
//! would now admit.
//!
//! All principals are divided into 64 parts. Each part has a mark in the store: a random
//! number that changes after each such removal. A node records the parts in which it has
//! removed units. At a short interval it writes new marks for them and reads all marks, in
//! one call. So give-backs cost one call for each node and interval, however many they are,
//! and all nodes know of them within two seconds. If the store loses a mark, for example by
//! a fail-over, or if a node cannot reach the marks, a state is used for at most
//! [`MAX_AGE`].

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::digest::Key;
use tollgate_core::time::{Span, Timestamp};

/// The number of parts: a `u64` has a bit for each.
pub(crate) const PARTS: usize = 64;
/// How long a state is used if the marks cannot be read.
const TRUSTED_FOR: Span = Span::SECOND;
/// How long the marks are valid after the request for them.
const NEWS_FOR: Span = Span::from_millis(1500);
/// The maximum age of a state that is used.
pub(crate) const MAX_AGE: Span = Span::from_secs(60);

/// The give-backs on all nodes, as far as one node knows them. Its workers share them. Times
/// are those of the node's own clock.
#[derive(Debug)]
pub(crate) struct Invalidations {
    marks: [AtomicU64; PARTS],
    /// When this node found that the mark of a part had changed.
    changed_us: [AtomicU64; PARTS],
    /// When the last successful request for the marks was sent.
    heard_us: AtomicU64,
    /// The parts in which this node has removed units and whose marks must change, a bit for
    /// each.
    due: AtomicU64,
}

impl Default for Invalidations {
    /// No mark was read yet. A part without a mark has the mark 0.
    fn default() -> Self {
        let zeros = || [const { AtomicU64::new(0) }; PARTS];
        let heard_us = AtomicU64::new(0);
        let due = AtomicU64::new(0);
        Self { marks: zeros(), changed_us: zeros(), heard_us, due }
    }
}

fn part(key: &Key) -> usize {
    let bits = key.principal.bits() % 64;
    usize::try_from(bits).expect("less than 64")
}

impl Invalidations {
    /// Records that units of this counter were removed. The other nodes will learn of it.
    pub(crate) fn announce(&self, key: &Key) {
        self.due.fetch_or(1 << part(key), Ordering::Relaxed);
    }

    /// Whether a counter's state may be used at `now` that the store reported to a call sent
    /// at `asked`.
    pub(crate) fn is_current(&self, key: &Key, asked: Timestamp, now: Timestamp) -> bool {
        let at = |us: &AtomicU64| Timestamp::from_micros(us.load(Ordering::Acquire));
        let heard = at(&self.heard_us);
        asked > at(&self.changed_us[part(key)])
            && (now.since(asked) < TRUSTED_FOR || now.since(heard) < NEWS_FOR)
    }

    /// Records the marks in a reply that came at `now`, to a request sent at `asked`. Parts
    /// that are not in `read` have the mark 0.
    pub(crate) fn hear(&self, read: &[(usize, u64)], asked: Timestamp, now: Timestamp) {
        let mut marks = [0; PARTS];
        for (part, mark) in read {
            if let Some(known) = marks.get_mut(*part) {
                *known = *mark;
            }
        }
        for ((known, changed), mark) in self.marks.iter().zip(&self.changed_us).zip(marks) {
            if known.swap(mark, Ordering::Relaxed) != mark {
                changed.fetch_max(now.as_micros(), Ordering::Release);
            }
        }
        self.heard_us.store(asked.as_micros(), Ordering::Release);
    }

    /// Whether any mark must change.
    pub(crate) fn are_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0
    }

    /// Takes the parts whose marks must change, a bit for each.
    pub(crate) fn take_due(&self) -> u64 {
        self.due.swap(0, Ordering::Relaxed)
    }

    /// Puts back parts whose marks could not be written, for the next exchange.
    pub(crate) fn put_back(&self, due: u64) {
        self.due.fetch_or(due, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
