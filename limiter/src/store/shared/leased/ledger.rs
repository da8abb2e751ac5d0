//! The lots of all keys of one node, or of a part of them: a bounded table, and an order in which
//! leases end.
//!
//! A key that finds no room costs what it costs without leases: a call for each
//! request. What is evicted is given back; what cannot even be remembered as
//! given back stays counted. Nothing in here makes a unit that was not taken in
//! the store.

use std::collections::BTreeSet;
use std::mem;

use super::lease::{Lease, Return, Spending};
use super::length::LeaseLength;
use crate::algorithm::{Algorithm, Op, State, Verdict};
use crate::digest::Key;
use crate::store::Charge;
use crate::store::shared::ask::Ahead;
use crate::store::shared::table::Table;
use crate::time::Timestamp;

/// The leases of one node.
#[derive(Debug)]
pub struct Ledger {
    length: LeaseLength,
    leases: Table<Lease>,
    /// When the leases end. A key stands here once at most, so there are no
    /// more of them than lots.
    ends: BTreeSet<(Timestamp, Key)>,
    /// What is to be given back, and has not been asked for yet.
    returns: Vec<Return>,
    max_keys: usize,
}

impl Ledger {
    /// A ledger that remembers up to `max_keys` keys, and leases for so long.
    pub fn new(max_keys: usize, length: LeaseLength) -> Self {
        Self {
            length,
            leases: Table::new(max_keys),
            ends: BTreeSet::new(),
            returns: Vec::new(),
            max_keys,
        }
    }

    /// Whether units of this algorithm are taken ahead. Others are exact: a log
    /// holds every unit's own time, a queue hands out slots in their order, and
    /// what is in flight is taken for no fixed time.
    pub fn leases(algorithm: &Algorithm) -> bool {
        LeaseLength::default().of(algorithm).is_some()
    }

    /// Spends the units of a charge from what was taken ahead, or says why that
    /// cannot be. `now` is the store's time.
    pub fn spend(&mut self, charge: &Charge<'_>, now: Timestamp) -> Spending {
        let Some(mut lease) = self.leases.use_mut(&charge.key) else {
            return Spending::Ask(Ahead::NOTHING);
        };
        if lease.counts_as(charge.algorithm) {
            return lease.spend(charge.cost, now);
        }
        let ended = lease.change(charge.key, charge.algorithm, now);
        drop(lease);
        self.give_back(ended);
        Spending::Ask(Ahead::NOTHING)
    }

    /// Puts back the units that a charge [spent](Spending::Spent) at `spent` for
    /// a request that another charge stopped. They stay counted if their lease
    /// has ended meanwhile. The verdict tells what remains without them; none if
    /// nothing is known of the key any more.
    pub fn put_back(
        &mut self,
        charge: &Charge<'_>,
        spent: Timestamp,
        now: Timestamp,
    ) -> Option<Verdict> {
        let mut lease = self.leases.use_mut(&charge.key)?;
        Some(lease.put_back(charge.cost, spent, now))
    }

    /// Takes note of what the store did at `at`, by its clock, for a charge that
    /// was asked to take units `ahead`: `before` is its state before. Of a charge that was
    /// not taken because another one stopped its request, the ledger hears
    /// nothing. The verdict is the one to tell.
    pub fn answered(
        &mut self,
        charge: &Charge<'_>,
        ahead: Ahead,
        before: Option<&State>,
        at: Timestamp,
    ) -> Verdict {
        let key = charge.key;
        if self.leases.peek(&key).is_none() {
            self.make_room_for(charge);
        }
        let Some(mut lease) = self.leases.peek_mut(&key) else {
            return charge.algorithm.apply(before, Op::Take(charge.cost), at).1;
        };
        let ended_at = lease.until();
        let (verdict, ended) = lease.answered(charge, ahead, before, at);
        let ends_at = lease.until();
        drop(lease);
        if ends_at != ended_at {
            self.ends.remove(&(ended_at, key));
            self.ends.insert((ends_at, key));
        }
        self.give_back(ended);
        verdict
    }

    /// Takes note that the store corrects what it has counted under this key.
    pub fn corrected(&mut self, key: Key, op: Op, now: Timestamp) {
        if let Some(mut lease) = self.leases.peek_mut(&key) {
            lease.corrected(op, now);
        }
    }

    /// What is to be given back at `now`: what was left when its lease ended.
    pub fn returns(&mut self, now: Timestamp) -> Vec<Return> {
        while let Some(&(end, key)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            let ended = self.leases.peek_mut(&key).and_then(|mut lease| lease.end(key, now));
            self.give_back(ended);
        }
        mem::take(&mut self.returns)
    }

    /// When something will be given back, unless leases begin or are spent meanwhile.
    pub fn next_return(&self) -> Option<Timestamp> {
        match self.returns.as_slice() {
            [] => self.ends.first().map(|&(end, _)| end),
            _ => Some(Timestamp::default()),
        }
    }

    /// Ends all leases, for a node that stops.
    pub fn close(&mut self, now: Timestamp) -> Vec<Return> {
        for (_, key) in mem::take(&mut self.ends) {
            let ended = self.leases.peek_mut(&key).and_then(|mut lease| lease.end(key, now));
            self.give_back(ended);
        }
        mem::take(&mut self.returns)
    }

    fn make_room_for(&mut self, charge: &Charge<'_>) {
        let Some(length) = self.length.of(charge.algorithm) else { return };
        let lease = Lease::new(charge.algorithm, length);
        for (key, mut lease) in self.leases.insert(charge.key, lease) {
            self.ends.remove(&(lease.until(), key));
            let ended = lease.end(key, lease.until());
            self.give_back(ended);
        }
    }

    fn give_back(&mut self, ended: Option<Return>) {
        if self.returns.len() < self.max_keys {
            self.returns.extend(ended);
        }
    }
}
