//! The units of the ledgers by counter, for metrics.

use std::collections::HashMap;

use tollgate_core::digest::Counter;
use tollgate_core::store::Units;

use super::LocalLedgers;

impl LocalLedgers {
    /// Adds the leased and the unsent units to `sums`. It looks at each account, so it is to be
    /// called rarely.
    pub(crate) fn add_units(&self, sums: &mut HashMap<Counter, Units>) {
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
