//! What a node has lost count of since it started. Nothing here decides; it is
//! for metrics, and this is the one place where they find it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Forgiven;

/// What a node has lost count of since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// States in memory that were forgotten for want of room.
    pub forgiven: Forgiven,
    /// Units told to the store of which it is not known whether it has counted
    /// them.
    pub lost_units: u64,
    /// Units of which the store was never told, for want of room.
    pub forgotten_units: u64,
}

/// Where the workers of a node say what they have lost.
#[derive(Debug, Default)]
pub(super) struct Lost {
    lost_units: AtomicU64,
    forgotten_units: AtomicU64,
}

impl Lost {
    /// So many units more.
    pub(super) fn add(&self, lost_units: u64, forgotten_units: u64) {
        self.lost_units.fetch_add(lost_units, Ordering::Relaxed);
        self.forgotten_units.fetch_add(forgotten_units, Ordering::Relaxed);
    }

    /// All of it, with what the memory has forgotten.
    pub(super) fn losses(&self, forgiven: Forgiven) -> Losses {
        Losses {
            forgiven,
            lost_units: self.lost_units.load(Ordering::Relaxed),
            forgotten_units: self.forgotten_units.load(Ordering::Relaxed),
        }
    }
}
