//! Counters in Redis, shared by all nodes.

mod settings;
mod url;

pub use settings::{Address, Identity, Password, RedisSettings, TlsSettings, Topology};
pub use url::UrlError;
