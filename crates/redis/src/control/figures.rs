//! The figures of each node, `{prefix}:meta:figures:{id}`, which nodes publish while one of them
//! watches: while the key `{prefix}:meta:watch` exists.

use std::time::Duration;

use futures_util::future::join_all;
use redis::{Pipeline, Value, cmd};

use super::super::failure::StoreError;
use super::ControlStore;

/// A watch ends this long after it was last renewed.
const WATCH_S: u8 = 15;
/// The figures of a node that is silent disappear after this time.
const LIFE: Duration = Duration::from_secs(6);
/// The most bytes of the figures of one node.
const MAX_BYTES: usize = 16 * 1024;

/// What a node has published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFigures {
    /// The identifier of the node.
    pub id: String,
    /// What it has published, and how long ago, by the clock of Redis. None: nothing in the last
    /// 6 s, or its server is away.
    pub published: Option<(Vec<u8>, Duration)>,
}

impl ControlStore {
    /// The most bytes of what a node publishes.
    pub const MAX_FIGURES_BYTES: usize = MAX_BYTES;

    /// Asks all nodes to publish their figures for the next 15 s.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn watch(&self) -> Result<(), StoreError> {
        let key = self.key("watch");
        let mut write = cmd("SET");
        write.arg(&key).arg(self.node_id()).arg("EX").arg(WATCH_S);
        self.ask(&key, write).await.map(drop)
    }

    /// Whether nodes are asked to publish their figures.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn is_watched(&self) -> Result<bool, StoreError> {
        let key = self.key("watch");
        let mut read = cmd("GET");
        read.arg(&key);
        Ok(matches!(self.ask(&key, read).await?, Value::BulkString(_)))
    }

    /// Publishes the figures of this node, which stay for 6 s. Those that are longer than 16 KiB
    /// are not published.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn publish_figures(&self, figures: &[u8]) -> Result<(), StoreError> {
        if figures.len() > MAX_BYTES {
            return Ok(());
        }
        let key = self.figures_key(&self.node_id());
        let mut write = cmd("SET");
        write.arg(&key).arg(figures).arg("PX").arg(millis(LIFE));
        self.ask(&key, write).await.map(drop)
    }

    /// What these nodes have published.
    pub async fn figures(&self, ids: Vec<String>) -> Vec<NodeFigures> {
        join_all(ids.into_iter().map(async |id| {
            let published = self.figures_of(&id).await.ok().flatten();
            NodeFigures { id, published }
        }))
        .await
    }

    async fn figures_of(&self, id: &str) -> Result<Option<(Vec<u8>, Duration)>, StoreError> {
        let key = self.figures_key(id);
        let mut read = cmd("GET");
        let mut life = cmd("PTTL");
        read.arg(&key);
        life.arg(&key);
        let mut commands = Pipeline::new();
        commands.add_command(read).add_command(life);
        let place = self.servers.destination(key.as_bytes());
        let replies = self.servers.look_up(place, &commands).await?;
        Ok(match &replies[..] {
            [Value::BulkString(figures), Value::Int(left)] if figures.len() <= MAX_BYTES => {
                let left = u64::try_from(*left).unwrap_or(0);
                let age = LIFE.saturating_sub(Duration::from_millis(left));
                Some((figures.clone(), age))
            }
            _ => None,
        })
    }

    fn figures_key(&self, id: &str) -> String {
        self.key(&format!("figures:{id}"))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
