//! The units of the ledgers by counter, for metrics.

use std::collections::HashMap;

use super::LocalLedgers;
use crate::digest::Counter;
use crate::store::Units;

impl LocalLedgers {
    /// Adds the leased and the unsent units to `sums`. It looks at each account, so it is to be
    /// called rarely.
    pub(in crate::store) fn add_units(&self, sums: &mut HashMap<Counter, Units>) {
        for shard in &self.shards {
            let ledgers = shard.ledgers.lock();
            for (counter, units) in ledgers.leases.units() {
                sums.entry(counter).or_default().leases.add(units);
            }
            for (counter, unsent) in ledgers.accounts.unsent() {
                let sum = &mut sums.entry(counter).or_default().unsent;
                *sum = sum.saturating_add(unsent);
            }
        }
    }
}
