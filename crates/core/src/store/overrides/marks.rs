//! The marks by which nodes find changed overrides.
//!
//! All keys are divided into 64 parts. Each part has a mark: a random number that changes
//! with each change of an override in the part. A node reads all marks once a second, in one
//! call. If a mark has changed, the node reads the overrides of that part again when it
//! needs them. So a change makes each node read a 64th of its entries again.
//!
//! Marks have two advantages over messages: a node that was disconnected for a while finds
//! all changes, and a node that changes an override need not know the other nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Key;
use crate::time::{Span, Timestamp};

/// The maximum time by which replicas are behind their masters.
const SETTLED_AFTER: Span = Span::from_secs(5);
/// How long what was read is valid after the marks were last read. They are read every second,
/// so that changes are known within two seconds.
const TRUSTED_FOR: Span = Span::from_millis(1500);
/// The maximum age of what is valid. A change whose mark was lost, for example by a fail-over
/// of Redis, is found after this time.
const MAX_AGE: Span = Span::from_secs(60);
/// The number of parts.
pub const PARTS: usize = 64;

/// The marks as this node last read them. Its workers share them.
#[derive(Debug)]
pub struct Marks {
    parts: [AtomicU64; PARTS],
    /// When this node last found a change of each part.
    changed_us: [AtomicU64; PARTS],
    heard_us: AtomicU64,
}

impl Default for Marks {
    /// No mark was read yet. A part that was never changed has the mark 0.
    fn default() -> Self {
        Self {
            parts: [const { AtomicU64::new(0) }; PARTS],
            changed_us: [const { AtomicU64::new(0) }; PARTS],
            heard_us: AtomicU64::new(0),
        }
    }
}

/// The part of a key.
pub fn part(key: &Key) -> usize {
    let bits = key.principal.bits() % 64;
    usize::try_from(bits).expect("less than 64")
}

impl Marks {
    /// Records the marks in the reply to a request that was sent at `at`. Parts that are not
    /// in `marks` have the mark 0.
    pub fn hear(&self, marks: impl IntoIterator<Item = (usize, u64)>, at: Timestamp) {
        let mut all = [0; PARTS];
        for (part, mark) in marks {
            if let Some(known) = all.get_mut(part) {
                *known = mark;
            }
        }
        for ((part, changed_us), mark) in self.parts.iter().zip(&self.changed_us).zip(all) {
            if part.load(Ordering::Relaxed) != mark {
                changed_us.store(at.as_micros(), Ordering::Relaxed);
            }
            // `Release`: a thread that reads the mark also reads when it changed.
            part.store(mark, Ordering::Release);
        }
        // `Release`: a thread that reads this time also reads the marks.
        self.heard_us.store(at.as_micros(), Ordering::Release);
    }

    /// When the last successful request for the marks was sent.
    pub fn heard(&self) -> Timestamp {
        Timestamp::from_micros(self.heard_us.load(Ordering::Acquire))
    }

    /// Whether the last change of a key's part is so old that replicas have it, if they
    /// follow their masters.
    pub fn has_settled(&self, key: &Key, now: Timestamp) -> bool {
        let changed_us = self.changed_us[part(key)].load(Ordering::Relaxed);
        now.since(Timestamp::from_micros(changed_us)) >= SETTLED_AFTER
    }

    /// The mark of a key's part.
    pub fn of(&self, key: &Key) -> u64 {
        self.of_part(part(key))
    }

    /// The mark of a part, which is less than [`PARTS`].
    pub fn of_part(&self, part: usize) -> u64 {
        self.parts[part].load(Ordering::Acquire)
    }
}

/// When something was read, and the mark of its part at that time.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct ReadAt {
    pub(in crate::store) mark: u64,
    pub(in crate::store) at: Timestamp,
}

impl ReadAt {
    /// Whether what was read in this part is still valid at `now`.
    pub(in crate::store) fn is_fresh(self, part: usize, marks: &Marks, now: Timestamp) -> bool {
        let news = self.at.max(marks.heard());
        // If the clock was set back, older values are not valid.
        self.at <= now
            && now.since(self.at) < MAX_AGE
            && now.since(news) < TRUSTED_FOR
            && marks.of_part(part) == self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{after, key};

    #[test]
    fn a_part_settles_five_seconds_after_its_last_known_change() {
        let marks = Marks::default();
        let changed = key(7);
        let other = key(8);
        assert!(marks.has_settled(&changed, after(0)));
        marks.hear([(7, 3)], after(0));
        marks.hear([(7, 3)], after(1000));
        assert!(marks.has_settled(&other, after(0)));
        assert!(!marks.has_settled(&changed, after(4999)));
        assert!(marks.has_settled(&changed, after(5000)));
        marks.hear([(7, 4)], after(9000));
        assert!(!marks.has_settled(&changed, after(9000)));
        // A mark that has disappeared is a change as well.
        marks.hear([], after(20_000));
        assert!(!marks.has_settled(&changed, after(20_000)));
    }
}
