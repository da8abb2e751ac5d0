//! How nodes hear that units were taken away from counters: given back, or
//! forgotten by a reset. What a [deny cache](super::deny) saw before that may
//! refuse what the store would admit by now.
//!
//! All principals are divided into 64 parts, and each part has a mark in the
//! store: a random number that is another one after every such change in it. A
//! node keeps in mind in which parts it has given back, and at a
//! short interval writes new marks for them and reads all marks, in one call. So
//! give-backs cost one call for each node and interval, however many they are,
//! and every node knows of them within two seconds. Where the store loses a
//! mark, as by a fail-over, or where a node cannot reach the marks, a state is
//! believed for [`MAX_AGE`] at most.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Key;
use crate::time::{Span, Timestamp};

/// Parts of the principals: as many as a number has bits.
pub(in crate::store) const PARTS: usize = 64;
/// How long a state is believed without news of the marks.
const TRUSTED_FOR: Span = Span::SECOND;
/// How long the marks are believed after they were asked for.
const NEWS_FOR: Span = Span::from_millis(1500);
/// How long a state is believed whatever is heard.
pub(in crate::store) const MAX_AGE: Span = Span::from_secs(60);

/// What one node knows of give-backs on all nodes. Shared by its workers; times
/// are those of the node's own clock.
#[derive(Debug)]
pub(in crate::store) struct Invalidations {
    marks: [AtomicU64; PARTS],
    /// When it was heard that a part's mark is another one.
    changed_us: [AtomicU64; PARTS],
    /// When the marks were last asked for with success.
    heard_us: AtomicU64,
    /// The parts in which this node has given back, a bit for each, that the
    /// others are to be told of.
    due: AtomicU64,
}

impl Default for Invalidations {
    /// Nothing was heard yet. A part of which nothing was said has the mark 0.
    fn default() -> Self {
        let zeros = || [const { AtomicU64::new(0) }; PARTS];
        let (heard_us, due) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { marks: zeros(), changed_us: zeros(), heard_us, due }
    }
}

fn part(key: &Key) -> usize {
    let bits = key.principal.bits() % 64;
    usize::try_from(bits).expect("less than 64")
}

impl Invalidations {
    /// Units of this counter were taken away: the other nodes will be told.
    pub(in crate::store) fn announce(&self, key: &Key) {
        self.due.fetch_or(1 << part(key), Ordering::Relaxed);
    }

    /// Whether the state of a counter may be gone by at `now` that the store had
    /// after it was asked at `asked`.
    pub(in crate::store) fn is_current(&self, key: &Key, asked: Timestamp, now: Timestamp) -> bool {
        let at = |us: &AtomicU64| Timestamp::from_micros(us.load(Ordering::Acquire));
        let heard = at(&self.heard_us);
        asked > at(&self.changed_us[part(key)])
            && (now.since(asked) < TRUSTED_FOR || now.since(heard) < NEWS_FOR)
    }

    /// The marks were these when they were asked for at `asked`, as was heard at
    /// `now`; those of parts that are not named are 0.
    pub(in crate::store) fn hear(&self, read: &[(usize, u64)], asked: Timestamp, now: Timestamp) {
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

    /// Whether the others are to be told of anything.
    pub(in crate::store) fn are_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0
    }

    /// Takes the parts whose marks must change now, a bit for each.
    pub(in crate::store) fn take_due(&self) -> u64 {
        self.due.swap(0, Ordering::Relaxed)
    }

    /// Keeps parts for the next time: the store could not be told of them.
    pub(in crate::store) fn put_back(&self, due: u64) {
        self.due.fetch_or(due, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
