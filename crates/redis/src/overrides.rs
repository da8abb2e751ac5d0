//! Overrides in Redis: one field for each key, in hashes with the same layout as those of the
//! counters.
//!
//! They are read over the links of the worker's counters. A link that is known to be broken
//! is not waited for, and each read counts for its breaker like any other call.
//!
//! The marks of changes are one hash on one server: `{prefix}:meta:overrides`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Pipeline, Value, pipe};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;
use tollgate_core::digest::{Key, Secret};
use tollgate_core::store::overrides::{
    Marks, Override, PARTS, Stored, Unreadable, decode, encode, part,
};
use tollgate_core::time::Clock;

use super::failure::StoreError;
use super::layout::Layout;
use super::membership::{ClusterState, Membership};
use super::outages::Outages;
use super::server::{Destination, Servers};
use super::settings::{ReadFrom, RedisSettings};
use super::store::RedisStore;
use super::transport::NETWORK;

/// The time between two reads of the marks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time until the next read after one that failed.
const RETRY: Duration = Duration::from_millis(200);
/// The timeout of the command line: a person waits longer than a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why an override in Redis cannot be read or written.
#[derive(Debug, Error)]
pub enum OverrideError {
    /// Redis does not answer, or returns an error.
    #[error("Redis did not process the override: {0}; try again when it answers")]
    Redis(#[from] StoreError),
    /// The override was written, but its mark could not be changed.
    #[error(
        "the override is written, but the other nodes could not be notified ({0}): it takes effect \
         within a minute, or try again"
    )]
    NotAnnounced(StoreError),
    /// The stored override of the key cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Access to the overrides in Redis.
#[derive(Clone, Debug)]
pub struct Overrides {
    servers: Rc<Servers>,
    cluster_state: watch::Receiver<ClusterState>,
    prefix: Rc<str>,
    timeout: Duration,
    read_from: ReadFrom,
}

impl Overrides {
    /// Access to the overrides beside the counters of this store.
    pub(crate) fn beside(store: &RedisStore) -> Self {
        Self {
            servers: Rc::clone(&store.servers),
            cluster_state: store.node.cluster_state.clone(),
            prefix: store.node.settings.prefix.as_str().into(),
            timeout: store.node.settings.timeout,
            read_from: store.node.settings.read_from,
        }
    }

    /// Opens connections for a program that counts nothing. Also returns the secret under which
    /// all nodes digest keys. It must be called within a `LocalRuntime`.
    ///
    /// # Errors
    /// If Redis cannot be reached, or does not answer.
    pub async fn connect(settings: &RedisSettings) -> Result<(Self, Secret), StoreError> {
        let timeout = settings.timeout.max(PATIENCE);
        let settings = Rc::new(RedisSettings { timeout, ..settings.clone() });
        let servers = Rc::new(Servers::connect(&settings, &*NETWORK, &Outages::default()));
        let (sender, cluster_state) = watch::channel(ClusterState::unknown(&settings));
        let buckets = Layout::new(&settings.prefix, settings.expected_clients).buckets();
        let proposal = Secret::random();
        servers.settled().await;
        let mut presence = Membership::new(
            Rc::clone(&servers),
            &settings,
            buckets,
            proposal,
            Arc::default(),
            sender,
        );
        let secret = presence.agree_on_state().await?;
        let prefix = settings.prefix.as_str().into();
        // The command line reads the newest values, so it reads from the master.
        Ok((Self { servers, cluster_state, prefix, timeout, read_from: ReadFrom::Master }, secret))
    }

    /// How long a read may take.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The hash and the field of a key. None while the layout is not known.
    fn at(&self, key: &Key) -> Option<(Vec<u8>, Vec<u8>)> {
        let buckets = self.cluster_state.borrow().buckets?;
        let layout = Layout::with_buckets(&format!("{}:o", self.prefix), buckets);
        let policy = key.counter.bits().to_be_bytes();
        // Four bytes identify the policy, because a principal has few policies.
        let field = [&Layout::field(key.principal)[..], &policy[..4]].concat();
        Some((layout.key(key.principal).to_vec(), field))
    }

    /// The overrides of these keys, in their order, with one call for each destination. If
    /// the parts of all keys have `settled`, a replica may answer, if the settings allow it.
    pub(crate) async fn fetch(&self, keys: &[Key], settled: bool) -> Vec<Stored> {
        let mut said = vec![None; keys.len()];
        let mut asked: Vec<(Destination, Pipeline, Vec<usize>)> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let Some((hash, field)) = self.at(key) else { return said };
            let place = self.servers.destination(&hash);
            let known = asked.iter().position(|(known, ..)| *known == place);
            let known = known.unwrap_or_else(|| {
                asked.push((place, pipe(), Vec::new()));
                asked.len() - 1
            });
            let (_, commands, indices) = &mut asked[known];
            commands.cmd("HGET").arg(hash).arg(field);
            indices.push(index);
        }
        let may_replica = settled && self.read_from == ReadFrom::Replica;
        let answers = asked.iter().map(async |(place, commands, _)| match may_replica {
            true => self.servers.read(*place, commands).await,
            false => self.servers.look_up(*place, commands).await,
        });
        let answers = join_all(answers).await;
        for ((.., indices), answers) in asked.iter().zip(answers) {
            for (&index, answer) in indices.iter().zip(answers.into_iter().flatten()) {
                said[index] = understood(answer).ok();
            }
        }
        said
    }

    /// The override of a key.
    ///
    /// # Errors
    /// If Redis does not answer, or the stored override is invalid.
    pub async fn get(&self, key: Key) -> Result<Option<Override>, OverrideError> {
        let (hash, field) = self.at(&key).ok_or(StoreError::Away)?;
        let mut commands = pipe();
        commands.cmd("HGET").arg(&hash).arg(field);
        let answers = self.servers.look_up(self.servers.destination(&hash), &commands).await?;
        understood(first(answers)?)
    }

    /// Stores the override of a key, or removes it. It takes effect on all nodes within two
    /// seconds.
    ///
    /// # Errors
    /// If Redis does not answer. Then nothing has changed, or the other nodes find the change
    /// only after a minute.
    pub async fn put(&self, key: Key, what: Option<Override>) -> Result<(), OverrideError> {
        let (hash, field) = self.at(&key).ok_or(StoreError::Away)?;
        let mut commands = pipe();
        match what {
            Some(what) => commands.cmd("HSET").arg(&hash).arg(field).arg(encode(what)),
            None => commands.cmd("HDEL").arg(&hash).arg(field),
        };
        first(self.servers.look_up(self.servers.destination(&hash), &commands).await?)?;
        self.announce(part(&key)).await.map_err(OverrideError::NotAnnounced)
    }

    /// Changes the mark of a part.
    async fn announce(&self, part: usize) -> Result<(), StoreError> {
        let marks = self.marks();
        let mut commands = pipe();
        commands.cmd("HSET").arg(&marks).arg(part).arg(fastrand::u64(1..));
        let answers =
            self.servers.look_up(self.servers.destination(marks.as_bytes()), &commands).await?;
        first(answers).map(drop)
    }

    fn marks(&self) -> String {
        format!("{}:meta:overrides", self.prefix)
    }

    /// Reads the marks of all parts at intervals, until the task is dropped.
    pub(crate) async fn listen(self, marks: Arc<Marks>, clock: Clock) {
        loop {
            let at = clock.now();
            let pause = match self.read_marks().await {
                Ok(read) => {
                    marks.hear(read, at);
                    INTERVAL
                }
                // The links have logged the error.
                Err(_) => RETRY,
            };
            sleep(pause).await;
        }
    }

    async fn read_marks(&self) -> Result<Vec<(usize, u64)>, StoreError> {
        let key = self.marks();
        let mut commands = pipe();
        commands.cmd("HGETALL").arg(&key);
        let answers =
            self.servers.look_up(self.servers.destination(key.as_bytes()), &commands).await?;
        let pairs: Vec<(usize, u64)> = redis::from_redis_value(first(answers)?)
            .map_err(|_| StoreError::InvalidReply("the marks of overrides are not numbers"))?;
        Ok(pairs.into_iter().filter(|(part, _)| *part < PARTS).collect())
    }
}

fn first(answers: Vec<Value>) -> Result<Value, StoreError> {
    let missing = StoreError::InvalidReply("fewer answers than commands");
    Ok(answers.into_iter().next().ok_or(missing)?.extract_error()?)
}

fn understood(answer: Value) -> Result<Option<Override>, OverrideError> {
    match answer.extract_error().map_err(StoreError::from)? {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => decode(&bytes).map(Some).ok_or(Unreadable.into()),
        _ => Err(Unreadable.into()),
    }
}

#[cfg(test)]
mod tests;
