//! Units that become debts, by where this node has counted them before.

use tollgate_core::algorithm::Op;
use tollgate_core::store::Charge;
use tollgate_core::time::Timestamp;

use super::{Fallback, Since, consumes, share};

impl Fallback {
    /// Counts units that a request cost beyond those that the store counted, when the store
    /// cannot be reached. They become a debt.
    pub(crate) fn settle(&self, charge: &Charge<'_>, units: u64, nodes: u64, now: Timestamp) {
        let algorithm = share(charge.algorithm, nodes);
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        self.memory.correct(&Charge { algorithm: &algorithm, ..*charge }, op, now);
        self.owe_admitted(charge, units, nodes, now);
    }

    /// Adds units to the debts that this node has counted in its share, and that are missing in
    /// the known state, because the store has reported it since.
    pub(crate) fn owe_admitted(&self, charge: &Charge<'_>, units: u64, nodes: u64, now: Timestamp) {
        let op = Op::Settle { reserved: 0, actual: units, taken: now };
        self.change_known(charge.key, charge.algorithm, op, now);
        let since = self.since(charge, nodes, now);
        self.debts.with(|it| it.add(charge.key, charge.algorithm, units, since, now));
    }

    /// Adds units to the debts that this node has already counted in its share and in the known
    /// state.
    pub(crate) fn owe(&self, charge: &Charge<'_>, units: u64, since: Since, now: Timestamp) {
        if consumes(charge.algorithm) {
            self.debts.with(|it| it.add(charge.key, charge.algorithm, units, since, now));
        }
    }
}
