//! Warnings of budgets: the shares of limits that clients have passed.
//!
//! A node reports each share of a client once. It remembers the last 65,536 clients that it has
//! reported, until nothing of what they have used is counted any more. Clients are known by the ids
//! of their keys.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::decision::Passage;
use tollgate_core::digest::{Key, PrincipalId};
use tollgate_core::price::Denomination;
use tollgate_core::time::Timestamp;
use tracing::info;

/// The most clients that are remembered. One takes about 100 bytes.
const MAX_CLIENTS: usize = 65_536;
/// The most warnings that are kept for streams of events.
const MAX_KEPT: usize = 256;

/// The warnings of all workers of a node.
#[derive(Debug, Default)]
pub struct BudgetWarnings {
    reported: Mutex<Reported>,
    kept: Mutex<Kept>,
}

/// A share that a client has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetWarning {
    /// When it was, by the wall clock.
    pub time: Timestamp,
    /// The policy.
    pub policy: Arc<str>,
    /// The client's key.
    pub id: PrincipalId,
    /// The share in percent.
    pub share: u8,
    /// The units that were counted.
    pub used: u64,
    /// The limit.
    pub limit: u64,
    /// What a unit is, if it is money.
    pub unit: Option<Denomination>,
}

/// The clients that were reported.
#[derive(Debug, Default)]
struct Reported {
    /// The greatest share of each client, and until when it is remembered.
    shares: HashMap<Key, (u8, Timestamp)>,
    /// The clients, the oldest first.
    order: VecDeque<Key>,
}

#[derive(Debug, Default)]
struct Kept {
    warnings: VecDeque<BudgetWarning>,
    /// The sequence of the next warning.
    next: u64,
}

impl BudgetWarnings {
    /// Reports that a client has passed a share at `now`, unless that was reported before. Says
    /// whether it was reported now. `wall` is the time of the wall clock.
    pub fn observe(&self, passage: &Passage, now: Timestamp, wall: Timestamp) -> bool {
        let Passage { ref policy, key, share, used, limit, lasts } = *passage;
        if !self.reported.lock().is_new(key, share, now, now.plus(lasts)) {
            return false;
        }
        let unit = policy.unit().denomination();
        let policy = Arc::clone(&policy.name);
        let id = PrincipalId::from(key.principal);
        // Units of money are too small for a person to read.
        let spent = unit.map(|it| format!("{} of {}", it.shown(used), it.shown(limit)));
        let spent = spent.as_deref();
        info!(%policy, key = %id, share, used, limit, spent, "a client has passed a share of its limit");
        let warning = BudgetWarning { time: wall, policy, id, share, used, limit, unit };
        self.kept.lock().add(warning);
        true
    }

    /// The sequence of the next warning.
    pub fn next_sequence(&self) -> u64 {
        self.kept.lock().next
    }

    /// Up to `limit` warnings with this sequence and later ones, the oldest first; the sequence
    /// with which to go on; and how many between are not returned.
    pub fn since(&self, sequence: u64, limit: usize) -> (Vec<BudgetWarning>, u64, u64) {
        let kept = self.kept.lock();
        let oldest = kept.next.saturating_sub(u64::try_from(kept.warnings.len()).unwrap_or(0));
        let passed = usize::try_from(sequence.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let found: Vec<_> = kept.warnings.iter().skip(passed).take(limit).cloned().collect();
        let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
        (found, kept.next, kept.next.saturating_sub(sequence).saturating_sub(count))
    }
}

impl Reported {
    fn is_new(&mut self, key: Key, share: u8, now: Timestamp, until: Timestamp) -> bool {
        if let Some((known, ends)) = self.shares.get_mut(&key) {
            if *ends > now && *known >= share {
                return false;
            }
            (*known, *ends) = (share, until);
            return true;
        }
        if self.order.len() >= MAX_CLIENTS {
            self.order.pop_front().map(|oldest| self.shares.remove(&oldest));
        }
        self.shares.insert(key, (share, until));
        self.order.push_back(key);
        true
    }
}

impl Kept {
    fn add(&mut self, warning: BudgetWarning) {
        if self.warnings.len() >= MAX_KEPT {
            self.warnings.pop_front();
        }
        self.warnings.push_back(warning);
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::digest::{Counter, Principal};
    use tollgate_core::time::Span;

    use super::*;

    fn key(client: u128) -> Key {
        Key { principal: Principal::from_bits(client), counter: Counter::from_bits(1) }
    }

    #[test]
    fn a_client_is_reported_once_until_its_window_ends() {
        let mut reported = Reported::default();
        let at = |s| Timestamp::default().plus(Span::from_secs(s));
        let mut is_new = |share, now, until| reported.is_new(key(1), share, at(now), at(until));
        assert!(is_new(80, 1, 100));
        assert!(!is_new(80, 2, 100));
        assert!(is_new(95, 3, 100));
        // The count fell below the share and passed it again.
        assert!(!is_new(80, 99, 100) && !is_new(95, 99, 100));
        // The next window.
        assert!(is_new(80, 100, 200));
        assert!(!is_new(80, 101, 200));
        assert!(is_new(95, 101, 200));
    }

    #[test]
    fn the_clients_that_are_remembered_are_bounded() {
        let mut reported = Reported::default();
        let now = Timestamp::default();
        let end = Timestamp::from_micros(u64::MAX);
        for client in 0..MAX_CLIENTS as u128 + 10 {
            assert!(reported.is_new(key(client), 80, now, end));
        }
        assert_eq!([reported.shares.len(), reported.order.len()], [MAX_CLIENTS; 2]);
        assert!(!reported.is_new(key(10), 80, now, end));
        assert!(reported.is_new(key(9), 80, now, end));
    }

    #[test]
    fn a_reader_is_told_what_it_has_missed() {
        let warnings = BudgetWarnings::default();
        let warning = |used| BudgetWarning {
            time: Timestamp::default(),
            policy: "p".into(),
            id: Principal::from_bits(1).into(),
            share: 80,
            used,
            limit: 9,
            unit: None,
        };
        for used in 0..300 {
            warnings.kept.lock().add(warning(used));
        }
        let used = |sequence, limit| {
            let (found, next, lost) = warnings.since(sequence, limit);
            (found.first().map(|it| it.used), found.len(), next, lost)
        };
        assert_eq!(used(0, 1000), (Some(44), MAX_KEPT, 300, 44));
        assert_eq!(used(298, 1000), (Some(298), 2, 300, 0));
        assert_eq!(used(290, 4), (Some(290), 4, 300, 6));
        assert_eq!(used(300, 4), (None, 0, 300, 0));
        assert_eq!(warnings.next_sequence(), 300);
    }
}
