//! How changes are noticed.
//!
//! All keys are divided into 64 parts, and each part has a mark: a random
//! number that is another one after every change of a limit in it. A node reads
//! all marks once a second, in one call, and what it knows of a part whose mark
//! is another one it asks for again. So a change costs the nodes a question for
//! a 64th of what they know, and a second without changes nothing.
//!
//! Marks rather than messages: who was away for a while learns of all that has
//! changed, and who changes something need not know who listens.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Key;
use crate::time::Timestamp;

/// Parts of the keys.
pub(in crate::store) const PARTS: usize = 64;

/// The marks as this node has last read them. Shared by its workers.
#[derive(Debug)]
pub(in crate::store) struct Marks {
    parts: [AtomicU64; PARTS],
    heard_us: AtomicU64,
}

impl Default for Marks {
    /// Nothing was heard yet. A part that was never changed has the mark 0.
    fn default() -> Self {
        Self { parts: [const { AtomicU64::new(0) }; PARTS], heard_us: AtomicU64::new(0) }
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
        for (part, mark) in self.parts.iter().zip(all) {
            part.store(mark, Ordering::Relaxed);
        }
        // Who sees the time sees the marks.
        self.heard_us.store(at.as_micros(), Ordering::Release);
    }

    /// When the marks were last asked for with success.
    pub(in crate::store) fn heard(&self) -> Timestamp {
        Timestamp::from_micros(self.heard_us.load(Ordering::Acquire))
    }

    /// The mark of the part in which a key is.
    pub(super) fn of(&self, key: &Key) -> u64 {
        self.parts[part(key)].load(Ordering::Relaxed)
    }
}
