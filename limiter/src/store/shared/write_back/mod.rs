//! Counting on this node, and telling the store now and then.
//!
//! A node asks the store about a key that it does not know. From then on it
//! judges by the store's state as it last heard of it, and by what it has counted
//! itself since. What it has counted is sent to the store after an interval, or
//! as soon as it could matter to the other nodes. So far from the limit a key
//! costs one call an interval, however busy it is.
//!
//! Of what is free of a limit, a node among others admits by itself at most a half,
//! divided by the nodes, until the store has acknowledged it (`account`). Where this part
//! is less than what a request costs, the store is asked for each request. The
//! store in turn counts what nodes tell it only as far as it fits. What does not
//! fit stays with its node as a debt: the node admits nothing more of this key
//! until the store has counted all of it.
//!
//! Bound: the store's counter keeps what its algorithm promises, and all nodes
//! together have admitted at most half a limit that it has not counted. So in any
//! time at most half a limit more is admitted than the algorithm promises, and in
//! the long run the quota. It holds for any number of nodes, if each knows how
//! many there are. A node that is alone keeps what its algorithm promises.
//!
//! Each unit is counted once: units on their way are kept apart from those that
//! come meanwhile, and no unit is sent again that may have arrived. What became
//! of such units may be told late, and settles the account then. Until their
//! window is over, they are part of what the node has admitted by itself. While
//! the store is away, units are kept and merged, key by key.

mod account;
mod delta;
mod ledger;
mod schedule;
#[cfg(test)]
mod tests;

pub use account::Taken;
pub use delta::Delta;
pub use ledger::Ledger;
