//! Counters in Redis, shared by all nodes.
//!
//! A decision over counters in one place is one step of the [`script`] there.
//! Around it stand, in this order:
//!
//! 1. what is known to be refused is refused here (`deny`);
//! 2. counters in several places are asked for at once, and given back where
//!    one of them refuses (`parts`);
//! 3. connections never make a request wait for longer than its deadline
//!    (`link`), and a request whose client goes away leaves nothing in flight
//!    (`question`);
//! 4. what the store does not judge in time is judged here, as its consistency settings say
//!    (`fallback`), and told to the store when it is back.
//!
//! Each worker has a store of its own, with its own connections. What they share
//! is [`Shared`].

mod background;
mod batch;
#[cfg(test)]
mod checker;
pub mod codec;
mod compact;
mod connect;
mod deadline;
mod decide;
mod failure;
mod fan_out;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod fuzzing;
mod invalidation;
mod latch;
mod late;
pub mod layout;
mod link;
mod membership;
mod outage_log;
#[cfg(feature = "overrides")]
mod overrides;
mod question;
pub mod script;
mod server;
mod settings;
mod store;
mod stream;
mod tasks;
#[cfg(test)]
mod testing;
mod url;
mod wire;

pub use batch::Repeat;
pub use failure::{Refusal, StoreError};
pub use link::Health;
pub use outage_log::OutageLog;
#[cfg(feature = "overrides")]
pub use overrides::{OverrideError, Overrides};
pub use server::{Call, Destination, Servers};
pub use settings::{Address, Identity, Password, ReadFrom, RedisSettings, TlsSettings, Topology};
pub use store::{RedisStore, Shared};
pub use url::UrlError;
