//! The keys as operators read and write them, over connections of their own.

use std::num::NonZeroU16;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, join, join_all};
use redis::{Cmd, Value, cmd, pipe};
use tollgate_core::api_keys::{KeyDigest, KeyId};
use tollgate_core::store::OutageCause;
use tollgate_core::store::keys::{
    Expected, KeyStorage, KeyWrite, MAX_TEAMS, StorageError, StoredRecord, TeamWrite, Version,
    Written, part_of_digest, part_of_id, part_of_team,
};
use tollgate_core::store::overrides::PARTS;
use tollgate_core::time::{Span, Timestamp};

use super::names::Names;
use super::{Access, Stored};
use crate::failure::StoreError;
use crate::outages::Outages;
use crate::server::Servers;
use crate::settings::{ReadFrom, RedisSettings};
use crate::transport::NETWORK;

/// The shortest timeout: an operator waits longer than a request.
const PATIENCE: Duration = Duration::from_secs(2);
/// The rules of the ACL for the commands that counters do not need.
pub(crate) const KEY_COMMANDS: &str = "+zadd +zrem +zrangebylex";
const WRITE_KEY: &str = include_str!("write_key.lua");
const WRITE_TEAM: &str = include_str!("write_team.lua");
const WRITE_DIGEST: &str = include_str!("write_digest.lua");
const FORGET: &str = include_str!("forget.lua");

/// The keys in Redis, for operators.
#[derive(Debug)]
pub struct ControlKeys {
    pub(super) access: Access,
    /// Whether records are written into parts that have no sign, because `begin` follows.
    restores: bool,
}

impl ControlKeys {
    /// The keys over connections that a process has.
    pub(crate) fn over(servers: Rc<Servers>, prefix: &str) -> Self {
        let timeout = servers.settings().timeout;
        Self { access: Access { servers, names: Names::new(prefix), timeout }, restores: false }
    }

    /// Opens connections for a program that counts nothing. It must be called within a
    /// `LocalRuntime`.
    pub async fn connect(settings: &RedisSettings) -> Self {
        let settings = Rc::new(patient(settings.clone()));
        let servers = Servers::connect(&settings, &*NETWORK, &Outages::default());
        servers.settled().await;
        Self::over(Rc::new(servers), &settings.prefix)
    }

    /// The same, for writes into a store that has no sign of keys and gets it at the end.
    #[must_use]
    pub fn restoring(self) -> Self {
        Self { restores: true, ..self }
    }

    async fn read_keys(&self, ids: &[KeyId]) -> Result<Vec<Option<StoredRecord>>, StorageError> {
        let asked: Vec<(usize, String)> = ids.iter().map(|id| self.access.record(*id)).collect();
        let (stored, uses) = join(self.access.read(&asked), self.last_uses(ids)).await;
        let uses = uses.map_err(away)?;
        let mut records = Vec::with_capacity(ids.len());
        for ((id, stored), used) in ids.iter().zip(stored).zip(uses) {
            records.push(match stored.map_err(away)? {
                Stored::Value(bytes) => StoredRecord::of(&bytes, used.flatten()),
                Stored::NotBegun if !self.restores => return Err(StorageError::NotBegun),
                Stored::Absent | Stored::NotBegun => {
                    if used.is_some() {
                        // The record of a revoked key has ended, and its id is still in the index.
                        self.forget(*id).await?;
                    }
                    None
                }
            });
        }
        Ok(records)
    }

    /// Of each key whether it is in the index, and when it was last used.
    async fn last_uses(&self, ids: &[KeyId]) -> Result<Vec<Option<Option<Timestamp>>>, StoreError> {
        let mut uses = vec![None; ids.len()];
        let mut parts: Vec<usize> = ids.iter().map(|id| part_of_id(*id)).collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            let of_part = ids.iter().enumerate().filter(|(_, id)| part_of_id(**id) == part);
            let of_part: Vec<(usize, &KeyId)> = of_part.collect();
            let index = self.access.names.index(part);
            let mut commands = pipe();
            for (_, id) in &of_part {
                commands.cmd("HGET").arg(&index).arg(id.as_str());
            }
            let replies = self.access.ask(&index, &commands).await?;
            for ((at, _), reply) in of_part.into_iter().zip(replies) {
                let Value::BulkString(seconds) = reply else { continue };
                let seconds = std::str::from_utf8(&seconds).ok().and_then(|it| it.parse().ok());
                let time = |it| Timestamp::default().plus(Span::from_secs(it));
                uses[at] = Some(seconds.map(time));
            }
        }
        Ok(uses)
    }

    async fn id_of(&self, digest: &KeyDigest) -> Result<Option<KeyId>, StorageError> {
        let part = part_of_digest(digest);
        let asked = [(part, self.access.names.digest(part, digest))];
        let missing = Err(StoreError::InvalidReply("there is no reply to a command"));
        match self.access.read(&asked).await.pop().unwrap_or(missing).map_err(away)? {
            Stored::Value(id) => Ok(std::str::from_utf8(&id).ok().and_then(|id| id.parse().ok())),
            Stored::Absent => Ok(None),
            Stored::NotBegun if self.restores => Ok(None),
            Stored::NotBegun => Err(StorageError::NotBegun),
        }
    }

    async fn ids(
        &self,
        part: usize,
        after: Option<KeyId>,
        most: usize,
    ) -> Result<Vec<KeyId>, StorageError> {
        let index = self.access.names.index(part);
        let mut commands = pipe();
        commands.cmd("GET").arg(self.access.names.sign(part));
        let after = after.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
        let ids = self.access.names.ids(part);
        commands.cmd("ZRANGEBYLEX").arg(ids).arg(after).arg("+").arg("LIMIT").arg(0).arg(most);
        let replies = self.access.ask(&index, &commands).await.map_err(away)?;
        let mut replies = replies.into_iter();
        if matches!(replies.next(), Some(Value::Nil)) && !self.restores {
            return Err(StorageError::NotBegun);
        }
        let ids: Vec<String> = redis::from_redis_value(replies.next().unwrap_or(Value::Nil))
            .map_err(|_| away(StoreError::InvalidReply("the ids of keys are not a list")))?;
        Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
    }

    async fn write_key(&self, write: KeyWrite<'_>) -> Result<Written, StorageError> {
        let KeyWrite { id, foreign, .. } = write;
        // An entry without its record leads nowhere; a record without its entry is not found.
        if write.lasts.is_none() {
            self.check_digests(&write).await?;
            self.write_digests(&write).await?;
        }
        let version = self.write_record(&write).await?;
        let mut parts: Vec<usize> = foreign.iter().map(part_of_digest).collect();
        parts.push(part_of_id(id));
        let written = self.told(version, &parts).await;
        if write.lasts.is_some() {
            // The entries get the end of the record. If they cannot be written, they outlive it
            // and lead nowhere, so the write does not fail.
            drop(self.write_digests(&write).await);
        }
        Ok(written)
    }

    /// Fails if the record or a digest is not as it must be, before a digest is written: it is not
    /// in one step with the record, because it can be on another server.
    async fn check_digests(&self, write: &KeyWrite<'_>) -> Result<(), StorageError> {
        let KeyWrite { id, expected, foreign, .. } = *write;
        if foreign.is_empty() {
            return Ok(());
        }
        let names = &self.access.names;
        let entries = foreign.iter().map(|digest| {
            let part = part_of_digest(digest);
            (part, names.digest(part, digest))
        });
        let asked: Vec<(usize, String)> =
            [self.access.record(id)].into_iter().chain(entries).collect();
        for (index, stored) in self.access.read(&asked).await.into_iter().enumerate() {
            let value = match stored.map_err(away)? {
                Stored::Value(value) => Some(value),
                Stored::NotBegun if !self.restores => return Err(StorageError::NotBegun),
                Stored::Absent | Stored::NotBegun => None,
            };
            if index > 0 {
                check_owner(value.as_deref(), id)?;
                continue;
            }
            let present = value.and_then(|bytes| StoredRecord::of(&bytes, None));
            let present = present.map_or(Expected::Absent, |it| Expected::Version(it.version));
            if present != *expected {
                return Err(StorageError::Stale);
            }
        }
        Ok(())
    }

    /// Writes the record alone.
    async fn write_record(&self, write: &KeyWrite<'_>) -> Result<Version, StorageError> {
        let KeyWrite { id, expected, record, lasts, .. } = *write;
        let part = part_of_id(id);
        let version = Version::random();
        let index = self.access.names.index(part);
        let names = &self.access.names;
        let keys = [names.record(part, id), index.clone(), names.sign(part), names.ids(part)];
        let mut call = script(WRITE_KEY, &keys.each_ref().map(String::as_str));
        call.arg(id.as_str()).arg(expected.as_str()).arg(versioned(&version, record));
        call.arg(millis(lasts)).arg(if self.restores { "restore" } else { "" });
        match self.access.ask_one(&index, call).await.map_err(away)? {
            Value::Int(0) => Ok(version),
            Value::Int(1) => Err(StorageError::Stale),
            Value::Int(2) => Err(StorageError::NotBegun),
            _ => Err(away(StoreError::InvalidReply("the result of a write is not known"))),
        }
    }

    /// Writes the entries of the digests, which end with the record.
    async fn write_digests(&self, write: &KeyWrite<'_>) -> Result<(), StorageError> {
        let KeyWrite { id, lasts, foreign, .. } = *write;
        for digest in foreign {
            self.write_digest(id, digest, millis(lasts)).await?;
        }
        Ok(())
    }

    async fn write_digest(
        &self,
        id: KeyId,
        digest: &KeyDigest,
        lasts_ms: u64,
    ) -> Result<(), StorageError> {
        let part = part_of_digest(digest);
        let entry = self.access.names.digest(part, digest);
        let mut call = script(WRITE_DIGEST, &[&entry]);
        call.arg(id.as_str()).arg(lasts_ms);
        match self.access.ask_one(&self.access.names.index(part), call).await.map_err(away)? {
            Value::BulkString(other) if other.is_empty() => Ok(()),
            Value::BulkString(other) => check_owner(Some(&other), id),
            _ => Err(away(StoreError::InvalidReply("the result of a write is not known"))),
        }
    }

    async fn read_team(&self, name: &str) -> Result<Option<StoredRecord>, StorageError> {
        let teams = self.access.names.teams();
        let mut read = cmd("HGET");
        read.arg(&teams).arg(name);
        match self.access.ask_one(&teams, read).await.map_err(away)? {
            Value::BulkString(bytes) => Ok(StoredRecord::of(&bytes, None)),
            _ => Ok(None),
        }
    }

    async fn teams(&self) -> Result<Vec<StoredRecord>, StorageError> {
        let teams = self.access.names.teams();
        let mut read = cmd("HGETALL");
        read.arg(&teams);
        let reply = self.access.ask_one(&teams, read).await.map_err(away)?;
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = redis::from_redis_value(reply)
            .map_err(|_| away(StoreError::InvalidReply("the teams are not a hash")))?;
        let teams = pairs.iter().filter(|(name, _)| !name.is_empty());
        Ok(teams.filter_map(|(_, bytes)| StoredRecord::of(bytes, None)).collect())
    }

    async fn write_team(&self, write: TeamWrite<'_>) -> Result<Written, StorageError> {
        let TeamWrite { name, expected, record } = write;
        let teams = self.access.names.teams();
        let version = Version::random();
        let mut call = script(WRITE_TEAM, &[&teams]);
        call.arg(name).arg(expected.as_str()).arg(versioned(&version, record)).arg(MAX_TEAMS);
        match self.access.ask_one(&teams, call).await.map_err(away)? {
            Value::Int(0) => {}
            Value::Int(1) => return Err(StorageError::Stale),
            Value::Int(2) => return Err(StorageError::Full),
            _ => return Err(away(StoreError::InvalidReply("the result of a write is not known"))),
        }
        Ok(self.told(version, &[part_of_team(name)]).await)
    }

    async fn begin(&self) -> Result<(), StorageError> {
        let calls = (0..PARTS).map(async |part| {
            let mut note = cmd("SET");
            note.arg(self.access.names.sign(part)).arg(1);
            self.access.ask_one(&self.access.names.index(part), note).await
        });
        for done in join_all(calls).await {
            done.map_err(away)?;
        }
        let announced = self.access.announce(&(0..PARTS).collect::<Vec<_>>()).await;
        announced.map_err(|error| StorageError::NotAnnounced(error.to_string()))
    }

    async fn forget(&self, id: KeyId) -> Result<(), StorageError> {
        let part = part_of_id(id);
        let index = self.access.names.index(part);
        let names = &self.access.names;
        let mut call = script(FORGET, &[&names.record(part, id), &index, &names.ids(part)]);
        call.arg(id.as_str());
        self.access.ask_one(&index, call).await.map(drop).map_err(away)
    }

    /// What was written into these parts, after the other nodes were told or not.
    async fn told(&self, version: Version, parts: &[usize]) -> Written {
        let announced = self.access.announce(parts).await;
        Written { version, unannounced: announced.err().map(|error| error.to_string()) }
    }
}

impl KeyStorage for ControlKeys {
    fn read_keys<'a>(
        &'a self,
        ids: &'a [KeyId],
    ) -> LocalBoxFuture<'a, Result<Vec<Option<StoredRecord>>, StorageError>> {
        Self::read_keys(self, ids).boxed_local()
    }

    fn id_of<'a>(
        &'a self,
        digest: &'a KeyDigest,
    ) -> LocalBoxFuture<'a, Result<Option<KeyId>, StorageError>> {
        Self::id_of(self, digest).boxed_local()
    }

    fn ids(
        &self,
        part: usize,
        after: Option<KeyId>,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<KeyId>, StorageError>> {
        Self::ids(self, part, after, most).boxed_local()
    }

    fn write_key<'a>(
        &'a self,
        write: KeyWrite<'a>,
    ) -> LocalBoxFuture<'a, Result<Written, StorageError>> {
        Self::write_key(self, write).boxed_local()
    }

    fn read_team<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalBoxFuture<'a, Result<Option<StoredRecord>, StorageError>> {
        Self::read_team(self, name).boxed_local()
    }

    fn teams(&self) -> LocalBoxFuture<'_, Result<Vec<StoredRecord>, StorageError>> {
        Self::teams(self).boxed_local()
    }

    fn write_team<'a>(
        &'a self,
        write: TeamWrite<'a>,
    ) -> LocalBoxFuture<'a, Result<Written, StorageError>> {
        Self::write_team(self, write).boxed_local()
    }

    fn begin(&self) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Self::begin(self).boxed_local()
    }
}

/// The settings for a program that makes calls of operators.
fn patient(settings: RedisSettings) -> RedisSettings {
    RedisSettings {
        timeout: settings.timeout.max(PATIENCE),
        connections: NonZeroU16::MIN,
        read_from: ReadFrom::Master,
        ..settings
    }
}

/// A call of a script with these keys.
fn script(source: &str, keys: &[&str]) -> Cmd {
    let mut call = cmd("EVAL");
    call.arg(source).arg(keys.len());
    for key in keys {
        call.arg(*key);
    }
    call
}

/// How long a record stays, in milliseconds. 0: for ever.
fn millis(lasts: Option<Span>) -> u64 {
    lasts.map_or(0, |lasts| lasts.as_millis_ceil().max(1))
}

/// An entry must lead to the key `id`, if there is one.
fn check_owner(entry: Option<&[u8]>, id: KeyId) -> Result<(), StorageError> {
    let Some(entry) = entry else { return Ok(()) };
    match std::str::from_utf8(entry).ok().and_then(|it| it.parse::<KeyId>().ok()) {
        Some(owner) if owner == id => Ok(()),
        Some(owner) => Err(StorageError::Taken(owner)),
        None => Err(away(StoreError::InvalidReply("the entry of a digest is not an id"))),
    }
}

fn versioned(version: &Version, record: &[u8]) -> Vec<u8> {
    [version.as_str().as_bytes(), record].concat()
}

fn away(error: StoreError) -> StorageError {
    match error.cause() {
        OutageCause::CommandForbidden => StorageError::Away(format!(
            "{error}: the user needs {KEY_COMMANDS} for the calls of operators, besides the rights \
             that counters need"
        )),
        _ => StorageError::Away(error.to_string()),
    }
}
