//! Counters in Redis, shared by all nodes.

mod batch;
mod dial;
mod failure;
mod link;
mod script;
mod server;
mod settings;
#[cfg(test)]
mod testing;
mod url;

pub use failure::{Refusal, StoreError};
pub use link::Health;
pub use script::{Encoded, SCRIPT, Script};
pub use server::{Place, Servers};
pub use settings::{Address, Identity, Password, RedisSettings, TlsSettings, Topology};
pub use url::UrlError;
