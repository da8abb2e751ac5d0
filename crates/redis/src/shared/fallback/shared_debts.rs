//! The debts of one node, which its workers share.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::debts::Debts;

/// All debts behind a lock.
#[derive(Debug, Default)]
pub(super) struct SharedDebts {
    debts: Mutex<Debts>,
    /// The number of counters that have a debt. It is read without the lock.
    counters: AtomicUsize,
}

impl SharedDebts {
    /// Does one step on the debts.
    pub(super) fn with<T>(&self, step: impl FnOnce(&mut Debts) -> T) -> T {
        let mut debts = self.debts.lock();
        let done = step(&mut debts);
        self.counters.store(debts.counters(), Ordering::Relaxed);
        done
    }

    /// The number of counters that have a debt. It takes no lock.
    pub(super) fn counters(&self) -> usize {
        self.counters.load(Ordering::Relaxed)
    }
}
