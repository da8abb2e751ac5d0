//! When each key is reported to the store.

use std::collections::BTreeSet;
use std::mem;

use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

use super::account::Account;

/// Keys in the order in which they are reported to the store, each once at most.
#[derive(Debug, Default)]
pub(super) struct Schedule(BTreeSet<(Timestamp, Key)>);

impl Schedule {
    /// Moves a key to `due` if it is later.
    pub(super) fn hasten(&mut self, key: Key, account: &mut Account, due: Timestamp) {
        if account.due().is_some_and(|before| before <= due) {
            return;
        }
        self.forget(key, account);
        account.hasten(due);
        self.resume(key, account);
    }

    /// Makes the report of a key due before the store is asked, also if another one is under
    /// way.
    pub(super) fn hasten_report(&mut self, key: Key, account: &mut Account, now: Timestamp) {
        if account.has_unsent() {
            self.forget(key, account);
            account.precede(now);
            self.resume(key, account);
        }
    }

    /// Schedules a key again if a report may be sent.
    pub(super) fn resume(&mut self, key: Key, account: &Account) {
        if account.may_send() {
            self.0.extend(account.due().map(|due| (due, key)));
        }
    }

    pub(super) fn forget(&mut self, key: Key, account: &Account) {
        if let Some(due) = account.due() {
            self.0.remove(&(due, key));
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|&(due, _)| due)
    }

    /// The first key that is due at `now`.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Key> {
        let &(due, key) = self.0.first()?;
        (due <= now && self.0.remove(&(due, key))).then_some(key)
    }

    /// All keys that are due at any time.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Key> + use<> {
        mem::take(&mut self.0).into_iter().map(|(_, key)| key)
    }
}
