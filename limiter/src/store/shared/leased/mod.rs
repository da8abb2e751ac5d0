//! Units taken ahead: most requests of a busy client need no round trip.
//!
//! When the store must be asked, more than the request costs may be taken, as
//! much as this node will soon need. What was taken so is a *lease*, spent here
//! without a call, for a fiftieth of the window and 10 s at most. The store
//! counts units when they are leased, so however many nodes there are, nobody
//! can spend what is not there.
//!
//! Bound: with a token bucket at most the units that it refills during one
//! lease above its own bound, 2 % of the limit. With windows none at all: a
//! lease ends with the window or sub-window in which it was taken, so the
//! counters are the same as if each unit had been taken when it was spent.
//!
//! What can be refused wrongly are the units that lie unspent at other nodes,
//! for as long as a lease lasts. So little is taken: one unit at first, then by
//! the rate at which requests came since the last call; at most half of this
//! node's part of what is free, the part inferred from how much the others took
//! meanwhile; and nothing ahead once less than a fifth of the capacity is left.
//! What was not spent goes back.
//!
//! It is the way of Doorman (YouTube) and of DynamoDB's global
//! admission control, with lots so small that the bound above holds.
//!
//! A node is one lessee: its workers share one ledger, or the parts into which its
//! keys are divided. If each worker leased for itself, the units of a limit would
//! lie unspent in as many places.
//!
//! Where a client may be banned as well, the node remembers for as long as a lease
//! what the store said of the ban ([`Bans`]): otherwise each request would ask for
//! that alone.

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
