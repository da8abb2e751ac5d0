//! A record of each node, `{prefix}:meta:node:{id}`, which expires if the node is silent.

use futures_util::future::join_all;
use redis::{Value, cmd};

use super::super::failure::StoreError;
use super::ControlStore;

/// A record of a node that is silent disappears after this time.
const SILENCE_S: u8 = 15;
/// The most bytes of a record.
const MAX_BYTES: usize = 4096;
/// The most nodes that are listed.
const MAX_NODES: usize = 256;

/// A node, and what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its identifier: random, new at each start.
    pub id: String,
    /// What it has written. None: it writes no records, or its server is away.
    pub record: Option<Vec<u8>>,
}

impl ControlStore {
    /// The identifier of this node.
    pub fn node_id(&self) -> String {
        format!("{:016x}", self.node)
    }

    /// Writes the record of this node, which stays for 15 s. One that is longer than 4 KiB is
    /// not written.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn write_record(&self, record: &[u8]) -> Result<(), StoreError> {
        if record.len() > MAX_BYTES {
            return Ok(());
        }
        let key = self.key(&format!("node:{}", self.node_id()));
        let mut write = cmd("SET");
        write.arg(&key).arg(record).arg("EX").arg(SILENCE_S);
        self.ask(&key, write).await.map(drop)
    }

    /// The nodes that are alive, at most 256, by their identifiers.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn records(&self) -> Result<Vec<NodeRecord>, StoreError> {
        let key = self.key("nodes");
        let mut read = cmd("HGETALL");
        read.arg(&key);
        let pairs: Vec<(String, Value)> = redis::from_redis_value(self.ask(&key, read).await?)
            .map_err(|_| StoreError::InvalidReply("the nodes are not a hash"))?;
        let mut ids: Vec<String> = pairs.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.truncate(MAX_NODES);
        let records = ids.into_iter().map(async |id| {
            let key = self.key(&format!("node:{id}"));
            let mut read = cmd("GET");
            read.arg(&key);
            let record = match self.ask(&key, read).await {
                Ok(Value::BulkString(record)) if record.len() <= MAX_BYTES => Some(record),
                _ => None,
            };
            NodeRecord { id, record }
        });
        Ok(join_all(records).await)
    }
}
