//! How changes are noticed.
//!
//! All keys are divided into 64 parts, and each part has a mark: a random
//! number that is another one after every change of a limit in it. A node reads
//! all marks once a second, in one call, and what it knows of a part whose mark
//! is another one it asks for again. So a change costs the nodes a question for
//! a 64th of what they know, and a second without changes nothing.
//!
//! Marks are used rather than messages: a node that was away for a while reads all changes,
//! and a node that changes a limit need not know the other nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Key;
use crate::time::{Span, Timestamp};

/// Replicas may be so far behind their masters.
const SETTLED_AFTER: Span = Span::from_secs(5);
/// Parts of the keys.
pub(in crate::store) const PARTS: usize = 64;

/// The marks as this node has last read them. Shared by its workers.
#[derive(Debug)]
pub(in crate::store) struct Marks {
    parts: [AtomicU64; PARTS],
    /// When each part was last heard to have changed.
    changed_us: [AtomicU64; PARTS],
    heard_us: AtomicU64,
}

impl Default for Marks {
    /// Nothing was heard yet. A part that was never changed has the mark 0.
    fn default() -> Self {
        Self {
            parts: [const { AtomicU64::new(0) }; PARTS],
            changed_us: [const { AtomicU64::new(0) }; PARTS],
            heard_us: AtomicU64::new(0),
        }
    }
}

/// The part in which a key is.
pub(in crate::store) fn part(key: &Key) -> usize {
    let bits = key.principal.bits() % 64;
    usize::try_from(bits).expect("less than 64")
}

impl Marks {
    /// The marks were these when they were asked for at `at`; those of parts that
    /// are not named are 0.
    pub(in crate::store) fn hear(
        &self,
        marks: impl IntoIterator<Item = (usize, u64)>,
        at: Timestamp,
    ) {
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
            // A reader of the mark also reads when it changed.
            part.store(mark, Ordering::Release);
        }
        // A reader of the time also reads the marks.
        self.heard_us.store(at.as_micros(), Ordering::Release);
    }

    /// When the marks were last asked for with success.
    pub(in crate::store) fn heard(&self) -> Timestamp {
        Timestamp::from_micros(self.heard_us.load(Ordering::Acquire))
    }

    /// Whether the part in which a key is was changed so long ago that replicas
    /// know of it, if they follow their masters at all.
    pub(in crate::store) fn has_settled(&self, key: &Key, now: Timestamp) -> bool {
        let changed_us = self.changed_us[part(key)].load(Ordering::Relaxed);
        now.since(Timestamp::from_micros(changed_us)) >= SETTLED_AFTER
    }

    /// The mark of the part in which a key is.
    pub(in crate::store) fn of(&self, key: &Key) -> u64 {
        self.parts[part(key)].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shared::testing::{after, key};

    #[test]
    fn a_part_settles_five_seconds_after_it_was_heard_to_change() {
        let (marks, changed, other) = (Marks::default(), key(7), key(8));
        assert!(marks.has_settled(&changed, after(0)));
        marks.hear([(7, 3)], after(0));
        marks.hear([(7, 3)], after(1000));
        assert!(marks.has_settled(&other, after(0)));
        assert!(!marks.has_settled(&changed, after(4999)));
        assert!(marks.has_settled(&changed, after(5000)));
        marks.hear([(7, 4)], after(9000));
        assert!(!marks.has_settled(&changed, after(9000)));
        // What is no longer changed at all was changed, too.
        marks.hear([], after(20_000));
        assert!(!marks.has_settled(&changed, after(20_000)));
    }
}
