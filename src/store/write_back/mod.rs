//! Counting here, and telling the others now and then.
//!
//! Every request is judged and counted on this node alone. What was counted is
//! sent to the store an interval later, and the state that comes back holds
//! what the other nodes sent. It is sent at once when it could matter: when a
//! key is new here, and when the units not sent reach half of what remains,
//! divided by the nodes. So far from the limit a key costs one call an
//! interval, however busy it is.
//!
//! The store counts what is sent whether it fits or not, up to twice the
//! capacity: what was admitted too much is a debt that is paid later, so in the
//! long run the rate is the quota's. That, and the threshold, are what plain
//! periodic sums lack: they let every node have the whole limit again and again.
//!
//! Bound: about one limit above the limit in a burst that all nodes see at
//! once, however many they are; `docs/redis.md` has the measured figures. For
//! limits where approximate is fine.
//!
//! Nothing is counted twice: units on their way are kept apart from those that
//! come meanwhile, and units that may have arrived are not sent again. While
//! the store is away they are kept and merged, key by key.

mod account;
mod ledger;
#[cfg(test)]
mod tests;

pub use ledger::{Delta, Ledger};
