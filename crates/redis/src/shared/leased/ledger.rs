//! The leases of all keys of one node, or of a part of them: a bounded table, and the order
//! in which leases end.
//!
//! A key that does not fit into the table has no lease: each of its requests is a call. The
//! units of evicted leases are returned. If too many returns wait, units stay counted in
//! the store until they expire. The ledger never spends a unit that was not taken in the
//! store.

use std::collections::BTreeSet;
use std::mem;

use tollgate_core::algorithm::{Algorithm, Op, State, Verdict};
use tollgate_core::digest::{Counter, Key};
use tollgate_core::store::ByCounter;
use tollgate_core::store::{Charge, LeaseUnits};
use tollgate_core::time::{Span, Timestamp};

use super::lease::{Lease, Return, Spending};
use super::length::LeaseLength;
use crate::shared::ask::Ahead;
use crate::shared::table::Table;

/// The leases of one node.
#[derive(Debug)]
pub struct Ledger {
    length: LeaseLength,
    leases: Table<Lease>,
    /// The ends of the leases. Each key is in it once at most, so it has no more entries
    /// than the table.
    ends: BTreeSet<(Timestamp, Key)>,
    /// Units that wait to be returned to the store.
    returns: Vec<Return>,
    max_keys: usize,
    units: ByCounter<LeaseUnits>,
}

impl Ledger {
    /// A ledger for up to `max_keys` keys, whose leases last for `length`.
    pub fn new(max_keys: usize, length: LeaseLength) -> Self {
        Self {
            length,
            leases: Table::new(max_keys),
            ends: BTreeSet::new(),
            returns: Vec::new(),
            max_keys,
            units: ByCounter::default(),
        }
    }

    /// Whether units of this algorithm can be leased. The other algorithms are exact: a log
    /// holds the time of each unit, a queue assigns slots in order, and units in flight have
    /// no fixed end.
    pub fn leases(algorithm: &Algorithm) -> bool {
        LeaseLength::default().of(algorithm).is_some()
    }

    /// Spends the units of a charge from its lease, or returns why that is not possible.
    /// The store's time is `now`, or later by up to `slack`.
    pub fn spend(&mut self, charge: &Charge<'_>, now: Timestamp, slack: Span) -> Spending {
        let Some(mut lease) = self.leases.use_mut(&charge.key) else {
            return Spending::Ask(Ahead::NOTHING);
        };
        if lease.counts_as(charge.algorithm) {
            return lease.spend(charge.cost, now, slack);
        }
        let ended = lease.change(charge.key, charge.algorithm, now);
        let units = mem::take(&mut lease.units);
        drop(lease);
        self.units.of(charge.key.counter).add(&units);
        self.give_back(ended);
        Spending::Ask(Ahead::NOTHING)
    }

    /// Puts back the units that a charge [spent](Spending::Spent) at `spent`, because
    /// another charge refuses the request. They stay counted if their lease has ended
    /// meanwhile. The verdict reports what remains without them. It is None if the key was
    /// evicted.
    pub fn put_back(
        &mut self,
        charge: &Charge<'_>,
        spent: Timestamp,
        now: Timestamp,
    ) -> Option<Verdict> {
        let mut lease = self.leases.use_mut(&charge.key)?;
        Some(lease.put_back(charge.cost, spent, now))
    }

    /// Whether the lease of this key can pay the charge until then.
    pub fn lasts(&self, charge: &Charge<'_>, until: Timestamp) -> bool {
        self.leases.peek(&charge.key).is_some_and(|it| it.lasts(charge.cost, until))
    }

    /// Records the store's reply to a charge that was sent to take units `ahead`: at `at`, by
    /// its clock, its state was `before`. It is not called for a charge that the store did
    /// not count because another one refused the request. Returns the verdict for the
    /// caller.
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
        let units = mem::take(&mut lease.units);
        drop(lease);
        self.units.of(key.counter).add(&units);
        if ends_at != ended_at {
            self.ends.remove(&(ended_at, key));
            self.ends.insert((ends_at, key));
        }
        self.give_back(ended);
        verdict
    }

    /// Applies a correction that the store performs under this key.
    pub fn corrected(&mut self, key: Key, op: Op, now: Timestamp) {
        if let Some(mut lease) = self.leases.peek_mut(&key) {
            lease.corrected(op, now);
        }
    }

    /// The unspent units of the leases that have ended at `now`, to be returned.
    pub fn returns(&mut self, now: Timestamp) -> Vec<Return> {
        while let Some(&(end, key)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            self.end(key, now);
        }
        mem::take(&mut self.returns)
    }

    /// The time of the next return, unless leases begin or are spent meanwhile.
    pub fn next_return(&self) -> Option<Timestamp> {
        match self.returns.as_slice() {
            [] => self.ends.first().map(|&(end, _)| end),
            _ => Some(Timestamp::default()),
        }
    }

    /// Ends all leases when a node stops. Returns the unspent units.
    pub fn close(&mut self, now: Timestamp) -> Vec<Return> {
        for (_, key) in mem::take(&mut self.ends) {
            self.end(key, now);
        }
        mem::take(&mut self.returns)
    }

    /// The units of all leases since the node has started.
    pub fn units(&self) -> impl Iterator<Item = (Counter, &LeaseUnits)> {
        self.units.iter()
    }

    /// Ends the lease of a key.
    fn end(&mut self, key: Key, now: Timestamp) {
        let Some(mut lease) = self.leases.peek_mut(&key) else { return };
        let ended = lease.end(key, now);
        let units = mem::take(&mut lease.units);
        drop(lease);
        self.units.of(key.counter).add(&units);
        self.give_back(ended);
    }

    fn make_room_for(&mut self, charge: &Charge<'_>) {
        let Some(length) = self.length.of(charge.algorithm) else { return };
        let lease = Lease::new(charge.algorithm, length);
        for (key, mut lease) in self.leases.insert(charge.key, lease) {
            self.ends.remove(&(lease.until(), key));
            let ended = lease.end(key, lease.until());
            self.units.of(key.counter).add(&lease.units);
            self.give_back(ended);
        }
    }

    /// Keeps units that are to be returned. The units of the lease were counted as returned.
    fn give_back(&mut self, ended: Option<Return>) {
        let Some(back) = ended else { return };
        if self.returns.len() < self.max_keys {
            return self.returns.push(back);
        }
        let sum = self.units.of(back.key.counter);
        sum.returned = sum.returned.saturating_sub(back.units);
        sum.expired = sum.expired.saturating_add(back.units);
    }
}
