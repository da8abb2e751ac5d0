//! How messages are written to connections: the small writes of a connection joined, and vectored
//! writes as plain ones.

mod coalesced;
mod gather;

pub use coalesced::Coalesced;
pub use gather::poll_write_gathered;
