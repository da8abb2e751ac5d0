//! What the control threads of all nodes share, besides counters: entries that operators
//! write, a record of each node, and its figures while they are watched.
//!
//! It has connections of its own, so it neither delays decisions nor waits for them.

mod entries;
mod figures;
mod records;
#[cfg(test)]
mod tests;

use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

pub use entries::{EntryVersion, Expected, ReadEntries, WriteError};
pub use figures::NodeFigures;
pub use records::NodeRecord;

use super::api_keys::ControlKeys;
use super::failure::StoreError;
use super::live_settings::LiveSettings;
use super::server::Servers;
use super::settings::{ReadFrom, RedisSettings};
use super::store::NodeState;

/// The shortest timeout: an operator waits longer than a request.
const PATIENCE: Duration = Duration::from_secs(1);

/// Access of one process to what nodes share besides counters.
#[derive(Debug)]
pub struct ControlStore {
    servers: Rc<Servers>,
    prefix: String,
    node: u64,
}

impl ControlStore {
    /// Begins to connect in the background. It must be called within a `LocalRuntime`.
    pub fn connect(node: &Arc<NodeState>) -> Self {
        let live = LiveSettings::new(&node.latest, |settings| RedisSettings {
            timeout: settings.timeout.max(PATIENCE),
            connections: NonZeroU16::MIN,
            read_from: ReadFrom::Master,
            ..settings
        });
        let servers = Rc::new(Servers::following(live, node.transport, &node.outages));
        Self { servers, prefix: node.settings.prefix.clone(), node: node.id }
    }

    /// The API keys that all nodes share.
    pub fn keys(&self) -> ControlKeys {
        ControlKeys::over(Rc::clone(&self.servers), &self.prefix)
    }

    /// Returns when it is known whether the servers can be reached.
    pub async fn settled(&self) {
        self.servers.settled().await;
    }

    fn key(&self, name: &str) -> String {
        format!("{}:meta:{name}", self.prefix)
    }

    /// The reply to one command about `key`.
    async fn ask(&self, key: &str, command: Cmd) -> Result<Value, StoreError> {
        let mut commands = Pipeline::new();
        commands.add_command(command);
        let place = self.servers.destination(key.as_bytes());
        let replies = self.servers.look_up(place, &commands).await?;
        let missing = StoreError::InvalidReply("there is no reply to a command");
        Ok(replies.into_iter().next().ok_or(missing)?.extract_error()?)
    }
}
