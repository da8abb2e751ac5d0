//! How messages are written to connections: the small writes of a connection joined, and vectored
//! writes as plain ones.

mod coalesced;
mod gather;

pub(crate) use coalesced::Coalesced;
pub(crate) use gather::poll_write_gathered;
