//! Leases: units taken ahead, so that most requests of a busy client need no round trip.
//!
//! When a node calls the store, it may take more units than the request costs, as many as
//! it will need soon. These units are a *lease*. The node spends them without a call, for a
//! fiftieth of the window and at most 10 s. The store counts units when they are leased. So
//! no node can spend units that are not free, however many nodes there are.
//!
//! Bound: a token bucket can admit above its own bound the units that it refills during one
//! lease, at most 2 % of the limit. Windows admit nothing above their bound: a lease ends
//! with the window or sub-window in which it was taken, so the counters are the same as if
//! each unit had been taken when it was spent.
//!
//! While other nodes hold unspent units, a request can be refused for which these units
//! would be enough, for as long as a lease lasts. So nodes take few units: one at first,
//! then by the rate of requests since the last call; at most half of this node's share of
//! the free units, where the share is inferred from the units that other nodes took
//! meanwhile; and none ahead once less than a fifth of the capacity is left. Unspent units
//! are returned.
//!
//! Doorman (YouTube) and DynamoDB's global admission control work alike. The leases of this
//! module are small enough for the bound above.
//!
//! The workers of a node share one ledger, or the parts into which its keys are divided. If
//! each worker had leases of its own, more units of a limit would be unspent.
//!
//! If a client may be banned as well, the node remembers the state of the ban for as long
//! as a lease ([`Bans`]). Otherwise each request would call the store for the ban alone.

mod bans;
mod lease;
mod ledger;
mod length;
#[cfg(test)]
mod tests;

pub use bans::Bans;
pub use lease::{Return, Spending};
pub use ledger::Ledger;
pub use length::LeaseLength;

use tollgate_core::time::Span;

use crate::shared::deny::FRESH_FOR;

/// The least wait of a refusal that holds on all nodes. Each of them asks the store for a cost
/// again when [`FRESH_FOR`] has passed since it was refused, and the reply takes a moment.
pub(crate) const LEAST_WAIT: Span = Span::from_micros(2 * FRESH_FOR.as_micros());
