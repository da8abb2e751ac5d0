//! Asks all servers of the settings what the store needs of them, so that an operator can check them
//! before a gateway starts.
//!
//! A probe decides nothing and leaves nothing behind. It needs no right that the gateway does not
//! need. It goes on after an error wherever another question has an answer, so that one probe
//! reports all that is missing.

mod cluster;
mod facts;
mod report;
mod rights;
mod scope;
mod sentinels;
mod server;

use futures_util::future::join_all;

pub use report::{ClockOffset, Eviction, ServerKind, ServerReport, SmallSetting};
pub use scope::ProbeScope;

use super::connect::Target;
use super::settings::{RedisSettings, Topology};

/// Asks all servers that the settings name, and those that Sentinels or a cluster report. It must be
/// called in a `LocalRuntime`.
pub async fn probe(settings: &RedisSettings, scope: ProbeScope) -> Vec<ServerReport> {
    match &settings.topology {
        Topology::Standalone(address) => {
            let target = Target::Fixed(address.clone());
            vec![server::master(settings, address, &target, scope).await]
        }
        Topology::Shards(shards) => {
            let asked = shards.iter().map(|address| async move {
                let target = Target::Fixed(address.clone());
                server::master(settings, address, &target, scope).await
            });
            join_all(asked).await
        }
        Topology::Sentinel { sentinels, master_name } => {
            sentinels::probe(settings, sentinels, master_name, scope).await
        }
        Topology::Cluster(seeds) => cluster::probe(settings, seeds, scope).await,
    }
}
