//! Write-back: a node counts itself, and reports to the store at intervals.
//!
//! A node asks the store about a key that it does not know. From then on it decides by the
//! last state that the store reported and by the units that it has counted since. It reports
//! these units to the store after an interval, or as soon as they could matter to other
//! nodes. So a key far from its limit costs one call for each interval, however busy it is.
//!
//! One of several nodes admits at most half of the free units, divided by the number of
//! nodes, before the store acknowledges them (`account`). If a request costs more than this
//! part, the store is asked for each request. The store counts reported units only as far as
//! they fit. The rest stays with its node as a debt: the node admits nothing more of this
//! key until the store has counted the debt.
//!
//! Bound: the store's counter keeps the bound of its algorithm, and all nodes together have
//! admitted at most half a limit that it has not counted. So in any period at most half a
//! limit is admitted above the bound of the algorithm, and in the long run the quota. This
//! holds for any number of nodes if each node knows the number. A node that is alone keeps
//! the bound of the algorithm.
//!
//! Each unit is counted once: units under way are separate from units that are counted
//! meanwhile, and a unit that may have arrived is not sent again. Its outcome may be known
//! late, and then corrects the account. Until its window ends, it counts as admitted and not
//! acknowledged. While the store is away, units are kept and merged by key.

mod account;
mod delta;
mod ledger;
mod schedule;
#[cfg(test)]
mod tests;

pub use account::TakeOutcome;
pub use delta::Delta;
pub use ledger::Ledger;
