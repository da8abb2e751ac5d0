//! The units that this node has leased, owes or has not reported, by counter. They are for
//! metrics only, and no decision depends on them.

/// Units of leases, since the node has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseUnits {
    /// Taken ahead in the store.
    pub taken: u64,
    /// Spent by requests, of leases that have ended.
    pub spent: u64,
    /// Given back to the store unspent.
    pub returned: u64,
    /// Neither spent nor given back: they were too few for a call, or too many waited.
    pub expired: u64,
}

/// Units that this node has counted while the store was away, since it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebtUnits {
    /// Counted by this node.
    pub owed: u64,
    /// Counted by the store when it was back.
    pub reported: u64,
    /// Sent to the store without a reply.
    pub unknown: u64,
    /// Dropped, because too many counters had debts.
    pub dropped: u64,
}

/// The units of one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Units of leases.
    pub leases: LeaseUnits,
    /// Units of debts.
    pub debts: DebtUnits,
    /// Units that this node has counted and the store has not, at this moment.
    pub unsent: u64,
}

impl Units {
    /// Adds the units of another counter.
    pub const fn add(&mut self, more: &Self) {
        self.leases.add(&more.leases);
        self.debts.add(&more.debts);
        self.unsent = self.unsent.saturating_add(more.unsent);
    }
}

impl LeaseUnits {
    /// Adds the units of another counter.
    pub const fn add(&mut self, more: &Self) {
        self.taken = self.taken.saturating_add(more.taken);
        self.spent = self.spent.saturating_add(more.spent);
        self.returned = self.returned.saturating_add(more.returned);
        self.expired = self.expired.saturating_add(more.expired);
    }
}

impl DebtUnits {
    const fn add(&mut self, more: &Self) {
        self.owed = self.owed.saturating_add(more.owed);
        self.reported = self.reported.saturating_add(more.reported);
        self.unknown = self.unknown.saturating_add(more.unknown);
        self.dropped = self.dropped.saturating_add(more.dropped);
    }
}
