//! Whether a node can read its keys. Its log, its status and its metrics say so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::store::overrides::{Marks, PARTS};
use crate::time::{Span, Timestamp};

/// How long the marks of changes may be unread. What was read is valid for half of this time.
const MAX_SILENCE: Span = Span::from_secs(3);

// Each part has one bit.
const _: () = assert!(PARTS == 64);

/// Why keys cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysAway {
    /// The storage does not answer.
    NotRead,
    /// A part of the storage has no sign that it has keys.
    NoSign,
}

impl KeysAway {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::NotRead, Self::NoSign];

    /// Its word in metrics.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotRead => "not_read",
            Self::NoSign => "no_sign",
        }
    }

    /// What is wrong, and what follows from it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotRead => {
                "the store of the API keys cannot be read: known keys are accepted as \
                 on_store_failure of client.keys says, and other keys get 503"
            }
            Self::NoSign => {
                "the store has no sign that it has API keys, as one that was emptied or never had \
                 any: keys that it does not have get 503"
            }
        }
    }

    /// What to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NotRead => {
                "bring the store back: the log has the cause, and with Redis also the reason \
                 store_away of GET /v1/status"
            }
            Self::NoSign => {
                "import a backup with tollgate key import, or begin with tollgate key create \
                 --store --first"
            }
        }
    }
}

/// The condition of the storage, which the workers of a node share.
#[derive(Debug)]
pub struct KeysCondition {
    marks: Arc<Marks>,
    started: Timestamp,
    /// One bit for each part without the sign, as it was read last.
    without_sign: AtomicU64,
    /// Why the storage could not be read last, if it tells.
    problem: Mutex<Option<String>>,
}

impl KeysCondition {
    /// The condition of a storage that is read from now on, by this node's time.
    #[cfg(feature = "keys")]
    pub(super) fn new(marks: Arc<Marks>, now: Timestamp) -> Self {
        Self { marks, started: now, without_sign: AtomicU64::new(0), problem: Mutex::default() }
    }

    /// The marks of changes, as the reader of the storage has found them last.
    pub fn marks(&self) -> &Arc<Marks> {
        &self.marks
    }

    /// It was read whether a part has the sign that it has keys.
    pub fn note_sign(&self, part: usize, is_there: bool) {
        let bit = 1 << part;
        if is_there {
            self.without_sign.fetch_and(!bit, Ordering::Relaxed);
        } else {
            self.without_sign.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The storage could be read, or could not for this reason.
    pub fn note_problem(&self, problem: Option<&str>) {
        *self.problem.lock() = problem.map(str::to_owned);
    }

    /// Why the storage could not be read last, if it tells.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Why keys cannot be read at `now`. None: they can.
    pub fn away(&self, now: Timestamp) -> Option<KeysAway> {
        if now.since(self.started.max(self.marks.heard())) >= MAX_SILENCE {
            return Some(KeysAway::NotRead);
        }
        (self.without_sign.load(Ordering::Relaxed) != 0).then_some(KeysAway::NoSign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::after;

    #[test]
    fn keys_are_away_while_marks_are_unread_or_a_part_has_no_sign() {
        let marks = Arc::<Marks>::default();
        let condition = KeysCondition::new(Arc::clone(&marks), after(0));
        assert_eq!(condition.away(after(2999)), None, "the first answer has time");
        assert_eq!(condition.away(after(3000)), Some(KeysAway::NotRead));
        marks.hear([], after(3000));
        assert_eq!(condition.away(after(5999)), None);
        for part in [0, PARTS - 1] {
            condition.note_sign(part, false);
        }
        condition.note_sign(0, true);
        assert_eq!(condition.away(after(5999)), Some(KeysAway::NoSign));
        assert_eq!(condition.away(after(6000)), Some(KeysAway::NotRead));
        condition.note_sign(PARTS - 1, true);
        assert_eq!(condition.away(after(5999)), None);
    }
}
