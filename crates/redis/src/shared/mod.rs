//! The decisions of several nodes over a common store, whatever store it is.
//!
//! - `ask`: what a store is asked for one counter;
//! - `local_plan`: which charges this node decides itself, by leases ([`leased`]) or by
//!   counting now and reporting later ([`write_back`]);
//! - `deny`: refusals that follow from a state that the store has reported;
//!   `invalidation` tells when such a state is out of date;
//! - `fallback`: decisions while the store is away, and the debts that follow;
//! - `late_charges`: charges that this node has decided before the store's reply;
//! - `refunds`: units that are given back when the store is back;
//! - `in_flight`: the units that requests of this node hold;
//! - `store_clock`: the bounds of the time in the store;
//! - `table`: a bounded table of keys, for the ledgers.
//!
//! Nothing in here performs I/O or knows a wire format. The modules of Redis
//! import these; these import none of them.

pub(super) mod ask;
pub(super) mod deny;
pub(super) mod fallback;
pub(super) mod in_flight;
pub(super) mod invalidation;
pub(super) mod late_charges;
pub mod leased;
pub(super) mod local_plan;
pub(super) mod refunds;
pub(super) mod store_clock;
mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod write_back;

pub use self::ask::{Ahead, Ask, Asked};
pub use self::deny::{DenyCache, FRESH_FOR, Known, Trust};
