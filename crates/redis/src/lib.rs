//! Counters in Redis, shared by all nodes.
//!
//! This crate is a part of the library `tollgate-limiter` and of the gateway `tollgate`. It is
//! published because crates.io asks for that. Use the library: the interface of this crate may
//! change in any version. It is for engineers who change how nodes share counters.
//!
//! `shared` contains what nodes decide over any common store, without I/O. The other modules are
//! Redis: connections, topology, batches, the script in Lua and its encoding. `remote` gives the
//! store to the core. `checker` runs several nodes on a model of Redis in virtual time.
//!
//! A decision over counters at one destination is one step of the [`script`] there. The decision
//! on one request is a `Round` (`round`). It takes these steps, in this order:
//!
//! 1. the node decides what it can without a call, by its ledgers (`shared::local_plan`) and by
//!    the last state from the store (`shared::deny`);
//! 2. counters at several destinations are asked at once, and units are given back if one
//!    of the destinations refuses;
//! 3. no connection makes a request wait longer than its deadline (`link`), and a request
//!    whose client disconnects leaves nothing in flight;
//! 4. the node decides what the store does not decide in time, as the policy's
//!    consistency settings say (`shared::fallback`), and reports it to the store later.
//!
//! A charge has five forms on its way to the server and back. Each has one purpose:
//!
//! - `Charge` is what a policy counts;
//! - `Slot` is a charge in its round: how it is planned, which part of the round asks for it,
//!   what the store has replied, and its answer. It owns its algorithm if it outlives the request;
//! - `Asked` is one operation of the store, which can also be a correction or a report;
//! - `Encoded` is what one destination is asked, as keys and bytes, which outlive the request;
//! - `Answer` is the answer, whether the store or this node decides.
//!
//! `transport` is the way of calls to the servers. The checker has one to its model of them.
//!
//! Each worker has a store of its own, with its own connections. What they share
//! is [`NodeState`].

mod api_keys;
mod background;
mod batch;
mod breaker;
#[cfg(test)]
mod checker;
pub mod codec;
mod compact;
mod connect;
mod control;
mod deadline;
mod event;
mod failure;
mod first_byte;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod inquiries;
mod inspect;
mod invalidation;
pub mod layout;
mod link;
mod live_settings;
mod membership;
mod memory_settings;
mod once;
mod outages;
mod overrides;
mod probe;
mod refunds;
mod remedy;
mod remote;
mod round;
pub mod script;
mod server;
mod server_time;
mod settings;
pub mod shared;
mod slots;
mod store;
mod stream;
mod tasks;
mod test_write;
#[cfg(test)]
mod testing;
mod throttle;
mod tls;
mod transport;
mod url;
mod wire;

pub use api_keys::ControlKeys;
pub use batch::Repeat;
pub use control::{
    ControlStore, EntryVersion, Expected, NodeFigures, NodeRecord, ReadEntries, WriteError,
};
pub use failure::{Refusal, StoreError};
pub use link::Health;
pub use outages::Outages;
pub use overrides::{OverrideError, Overrides};
pub use probe::{ClockOffset, Eviction, ProbeScope, ServerKind, ServerReport, SmallSetting, probe};
pub use server::{Call, Destination, Servers};
pub use settings::{
    Address, Credentials, Password, ReadFrom, RedisSettings, SettingFault, Topology,
};
pub use store::{NodeState, RedisStore};
pub use tls::{Identity, TlsParts, TlsSettings};
pub use url::{UrlError, percent_decoded};
