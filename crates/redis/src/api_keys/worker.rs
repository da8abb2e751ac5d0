//! The keys as a worker reads them, over the links of its counters.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join_all};
use redis::{Value, cmd, pipe};
use tokio::time::sleep;
use tollgate_core::api_keys::{KeyId, Sought};
use tollgate_core::store::keys::{KeysCondition, ReadKeys, ReadRecord, part_of_digest, part_of_id};
use tollgate_core::store::overrides::PARTS;
use tollgate_core::time::{Clock, Timestamp};

use super::names::Names;
use super::{Access, Stored};
use crate::failure::StoreError;
use crate::store::RedisStore;

/// The time between two reads of the marks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time until the next read after one that failed.
const RETRY: Duration = Duration::from_millis(200);
/// How many parts are asked for their sign with each read of the marks: all parts in 16 seconds.
const SIGNS: usize = 4;
const NOTE_USES: &str = include_str!("note_uses.lua");

/// The keys beside the counters of a worker.
#[derive(Debug)]
pub(crate) struct WorkerKeys(pub(super) Access);

impl WorkerKeys {
    pub(crate) fn beside(store: &RedisStore) -> Self {
        let settings = &store.node.settings;
        Self(Access {
            servers: Rc::clone(&store.servers),
            names: Names::new(&settings.prefix),
            timeout: settings.timeout,
        })
    }

    async fn keys(&self, sought: &[Sought]) -> Vec<ReadRecord> {
        let Self(access) = self;
        let place = |sought: &Sought| match sought {
            Sought::Id(id) => access.record(*id),
            Sought::Digest(digest) => {
                let part = part_of_digest(digest);
                (part, access.names.digest(part, digest))
            }
        };
        let asked: Vec<(usize, String)> = sought.iter().map(place).collect();
        let mut said: Vec<ReadRecord> = access.read(&asked).await.into_iter().map(told).collect();
        // The entry of a digest has the id of its key.
        let mut ids: Vec<(usize, KeyId)> = Vec::new();
        for (index, sought) in sought.iter().enumerate() {
            let (Sought::Digest(_), ReadRecord::Record(id)) = (sought, &said[index]) else {
                continue;
            };
            let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
            said[index] = ReadRecord::Away;
            ids.extend(id.map(|id| (index, id)));
        }
        if !ids.is_empty() {
            let asked: Vec<(usize, String)> =
                ids.iter().map(|(_, id)| access.record(*id)).collect();
            let records = access.read(&asked).await.into_iter().map(told);
            for ((index, _), record) in ids.iter().zip(records) {
                said[*index] = record;
            }
        }
        said
    }

    async fn teams(&self, names: &[Arc<str>]) -> Vec<ReadRecord> {
        let teams = self.0.names.teams();
        let mut commands = pipe();
        for name in names {
            commands.cmd("HGET").arg(&teams).arg(&**name);
        }
        let Ok(replies) = self.0.ask(&teams, &commands).await else {
            return vec![ReadRecord::Away; names.len()];
        };
        let told = |reply| match reply {
            Value::BulkString(bytes) => ReadRecord::Record(bytes),
            Value::Nil => ReadRecord::Absent,
            _ => ReadRecord::Away,
        };
        replies.into_iter().map(told).collect()
    }

    async fn store_uses(&self, uses: &[(KeyId, Timestamp)]) {
        let mut parts: Vec<usize> = uses.iter().map(|(id, _)| part_of_id(*id)).collect();
        parts.sort_unstable();
        parts.dedup();
        let calls = parts.into_iter().map(async |part| {
            let index = self.0.names.index(part);
            let mut note = cmd("EVAL");
            note.arg(NOTE_USES).arg(1).arg(&index);
            for (id, at) in uses.iter().filter(|(id, _)| part_of_id(*id) == part) {
                note.arg(id.as_str()).arg(at.as_secs());
            }
            // The links have logged an error. A later use of the key is stored.
            let _ = self.0.ask_one(&index, note).await;
        });
        join_all(calls).await;
    }

    /// Reads which of these parts have the sign that they have keys.
    async fn look_for_signs(&self, parts: impl Iterator<Item = usize>, condition: &KeysCondition) {
        let looks = parts.map(async |part| {
            let mut read = cmd("GET");
            read.arg(self.0.names.sign(part));
            // The links log an error, and then what was read before holds.
            if let Ok(sign) = self.0.ask_one(&self.0.names.index(part), read).await {
                condition.note_sign(part, matches!(sign, Value::BulkString(_)));
            }
        });
        join_all(looks).await;
    }
}

fn told(stored: Result<Stored, StoreError>) -> ReadRecord {
    match stored {
        Ok(Stored::Value(bytes)) => ReadRecord::Record(bytes),
        Ok(Stored::Absent) => ReadRecord::Absent,
        Ok(Stored::NotBegun) => ReadRecord::NoSign,
        Err(_) => ReadRecord::Away,
    }
}

impl ReadKeys for WorkerKeys {
    fn keys<'a>(&'a self, sought: &'a [Sought]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        Self::keys(self, sought).boxed_local()
    }

    fn teams<'a>(&'a self, names: &'a [Arc<str>]) -> LocalBoxFuture<'a, Vec<ReadRecord>> {
        Self::teams(self, names).boxed_local()
    }

    fn store_uses<'a>(&'a self, uses: &'a [(KeyId, Timestamp)]) -> LocalBoxFuture<'a, ()> {
        Self::store_uses(self, uses).boxed_local()
    }

    fn timeout(&self) -> Duration {
        self.0.timeout
    }

    fn listen(
        self: Rc<Self>,
        condition: Arc<KeysCondition>,
        clock: Clock,
    ) -> LocalBoxFuture<'static, ()> {
        async move {
            let mut parts = (0..PARTS).cycle();
            loop {
                let at = clock.now();
                let pause = match self.0.marks().await {
                    Ok(read) => {
                        condition.marks().hear(read, at);
                        self.look_for_signs(parts.by_ref().take(SIGNS), &condition).await;
                        INTERVAL
                    }
                    // The links have logged the error.
                    Err(_) => RETRY,
                };
                sleep(pause).await;
            }
        }
        .boxed_local()
    }
}
