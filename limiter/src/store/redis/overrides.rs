//! Limits of single keys in Redis: a field each, in hashes that are laid out
//! like those of the counters, beside them.
//!
//! They are reached by the links of the worker's counters. A link that is known
//! to be broken is not waited for, and what comes of a question is a reason for
//! its breaker like any other call.
//!
//! The marks that tell of changes are one hash, in one place: `{prefix}:meta:overrides`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Pipeline, Value, pipe};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;

use super::failure::StoreError;
use super::layout::Layout;
use super::membership::{ClusterState, Membership};
use super::outage_log::OutageLog;
use super::script::SCRIPT;
use super::server::{Destination, Servers};
use super::settings::{ReadFrom, RedisSettings};
use super::store::RedisStore;
use crate::digest::{Key, Secret};
use crate::store::shared::overrides::{
    Marks, Override, PARTS, Said, Unreadable, decode, encode, part,
};
use crate::time::Clock;

/// Between two looks at the marks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same, after Redis did not answer.
const RETRY: Duration = Duration::from_millis(200);
/// A person at a terminal waits longer than a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why an override in Redis is not read, or not written.
#[derive(Debug, Error)]
pub enum OverrideError {
    /// Redis does not answer, or refuses.
    #[error("Redis does not do it: {0}; try again when it answers")]
    Redis(#[from] StoreError),
    /// It was written, and its change could not be announced.
    #[error(
        "it is written, but nobody could be told ({0}): it will be in effect within a minute, \
         or try again"
    )]
    NotAnnounced(StoreError),
    /// What is stored for the key cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The way to the limits of single keys.
#[derive(Clone, Debug)]
pub struct Overrides {
    servers: Rc<Servers>,
    cluster_state: watch::Receiver<ClusterState>,
    prefix: Rc<str>,
    timeout: Duration,
    read_from: ReadFrom,
}

impl RedisStore {
    /// The way to the limits of single keys that lie beside these counters.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            servers: Rc::clone(&self.servers),
            cluster_state: self.shared.cluster_state.clone(),
            prefix: self.shared.settings.prefix.as_str().into(),
            timeout: self.shared.settings.timeout,
            read_from: self.shared.settings.read_from,
        }
    }
}

impl Overrides {
    /// Connections of their own, for a program that counts nothing, and the secret under which
    /// all nodes digest keys. Must be called within a `LocalRuntime`.
    ///
    /// # Errors
    /// If Redis cannot be reached, or does not answer.
    pub async fn connect(settings: &RedisSettings) -> Result<(Self, Secret), StoreError> {
        let timeout = settings.timeout.max(PATIENCE);
        let settings = Rc::new(RedisSettings { timeout, ..settings.clone() });
        let servers = Rc::new(Servers::connect(&settings, &SCRIPT, &OutageLog::default()));
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
        // What a person asks for is the newest.
        Ok((Self { servers, cluster_state, prefix, timeout, read_from: ReadFrom::Master }, secret))
    }

    /// How long a question may take.
    pub(in crate::store) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Where a key is: its hash and its field. None while it is not known how
    /// keys are laid out.
    fn at(&self, key: &Key) -> Option<(Vec<u8>, Vec<u8>)> {
        let buckets = self.cluster_state.borrow().buckets?;
        let layout = Layout::with_buckets(&format!("{}:o", self.prefix), buckets);
        let policy = key.counter.bits().to_be_bytes();
        // Of a policy four bytes: a principal has few.
        let field = [&Layout::field(key.principal)[..], &policy[..4]].concat();
        Some((layout.key(key.principal).to_vec(), field))
    }

    /// What is kept of these keys, in their order: one call for each place. Of
    /// keys whose parts have `settled` a replica may tell, where it may at all.
    pub(in crate::store) async fn fetch(&self, keys: &[Key], settled: bool) -> Vec<Said> {
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

    /// What is kept of a key.
    ///
    /// # Errors
    /// If Redis does not answer, or what is there makes no sense.
    pub async fn get(&self, key: Key) -> Result<Option<Override>, OverrideError> {
        let (hash, field) = self.at(&key).ok_or(StoreError::Away)?;
        let mut commands = pipe();
        commands.cmd("HGET").arg(&hash).arg(field);
        let answers = self.servers.look_up(self.servers.destination(&hash), &commands).await?;
        understood(first(answers)?)
    }

    /// Keeps another limit of a key, or none, and tells all nodes, which go by it
    /// within two seconds.
    ///
    /// # Errors
    /// If Redis does not answer: then nothing has changed, or the other nodes do not know of it.
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

    /// Gives a part another mark.
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

    /// Reads the marks of all parts, for ever.
    pub(in crate::store) async fn listen(self, marks: Arc<Marks>, clock: Clock) {
        loop {
            let at = clock.now();
            let pause = match self.read_marks().await {
                Ok(read) => {
                    marks.hear(read, at);
                    INTERVAL
                }
                // The links have logged it.
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
            .map_err(|_| StoreError::Garbage("the marks of overrides are no numbers"))?;
        Ok(pairs.into_iter().filter(|(part, _)| *part < PARTS).collect())
    }
}

fn first(answers: Vec<Value>) -> Result<Value, StoreError> {
    let missing = StoreError::Garbage("fewer answers than commands");
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
