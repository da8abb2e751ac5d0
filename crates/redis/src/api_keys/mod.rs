//! API keys in Redis: one record for each key, in 64 parts.
//!
//! A part has an index of its ids and a sign that it has keys, in the slot of its records, so that
//! one script writes all of them. A part without the sign was emptied: then a key that is not there
//! is not known to be unknown. The marks of changes are one hash on one server, as those of the
//! limits of single keys.

mod control;
mod names;
#[cfg(test)]
mod tests;
mod worker;

use std::rc::Rc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value, cmd, pipe};
use tollgate_core::api_keys::KeyId;
use tollgate_core::store::keys::part_of_id;
use tollgate_core::store::overrides::PARTS;

pub use self::control::ControlKeys;
pub(crate) use self::worker::WorkerKeys;

use self::names::Names;
use super::failure::StoreError;
use super::server::Servers;

/// The way to the keys over the connections of a worker or of the control thread.
#[derive(Clone, Debug)]
struct Access {
    servers: Rc<Servers>,
    names: Names,
    timeout: Duration,
}

impl Access {
    /// The replies to commands about the part that `key` belongs to.
    async fn ask(&self, key: &str, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let place = self.servers.destination(key.as_bytes());
        let replies = self.servers.look_up(place, commands).await?;
        replies.into_iter().map(|reply| Ok(reply.extract_error()?)).collect()
    }

    /// The reply to one command.
    async fn ask_one(&self, key: &str, command: Cmd) -> Result<Value, StoreError> {
        let mut commands = pipe();
        commands.add_command(command);
        let missing = StoreError::InvalidReply("there is no reply to a command");
        self.ask(key, &commands).await?.into_iter().next().ok_or(missing)
    }

    /// Tells all nodes that something in these parts has changed.
    async fn announce(&self, parts: &[usize]) -> Result<(), StoreError> {
        let marks = self.names.marks();
        let mut change = cmd("HSET");
        change.arg(&marks);
        for part in parts {
            change.arg(part).arg(fastrand::u64(1..));
        }
        self.ask_one(&marks, change).await.map(drop)
    }

    /// The marks of all parts.
    async fn marks(&self) -> Result<Vec<(usize, u64)>, StoreError> {
        let marks = self.names.marks();
        let mut read = cmd("HGETALL");
        read.arg(&marks);
        let pairs: Vec<(usize, u64)> =
            redis::from_redis_value(self.ask_one(&marks, read).await?)
                .map_err(|_| StoreError::InvalidReply("the marks of keys are not numbers"))?;
        Ok(pairs.into_iter().filter(|(part, _)| *part < PARTS).collect())
    }

    /// What is stored for these questions, each with its part, in their order, with one call for
    /// each part. A question that has no reply has an error.
    async fn read(&self, asked: &[(usize, String)]) -> Vec<Result<Stored, StoreError>> {
        let mut said: Vec<Result<Stored, StoreError>> = vec![Err(StoreError::Away); asked.len()];
        let mut parts: Vec<usize> = asked.iter().map(|(part, _)| *part).collect();
        parts.sort_unstable();
        parts.dedup();
        let calls = parts.into_iter().map(async |part| {
            let of_part = asked.iter().enumerate().filter(|(_, (it, _))| *it == part);
            let indices: Vec<usize> = of_part.map(|(index, _)| index).collect();
            let mut commands = pipe();
            commands.cmd("GET").arg(self.names.sign(part));
            for index in &indices {
                commands.cmd("GET").arg(&asked[*index].1);
            }
            (self.ask(&self.names.index(part), &commands).await, indices)
        });
        for (replies, indices) in futures_util::future::join_all(calls).await {
            let replies = match replies {
                Ok(replies) => replies,
                Err(error) => {
                    indices.iter().for_each(|index| said[*index] = Err(error.clone()));
                    continue;
                }
            };
            let mut replies = replies.into_iter();
            let has_sign = matches!(replies.next(), Some(Value::BulkString(_)));
            for (index, reply) in indices.into_iter().zip(replies) {
                said[index] = match reply {
                    Value::BulkString(bytes) => Ok(Stored::Value(bytes)),
                    Value::Nil if has_sign => Ok(Stored::Absent),
                    Value::Nil => Ok(Stored::NotBegun),
                    _ => Err(StoreError::InvalidReply("a record of keys is not a text")),
                };
            }
        }
        said
    }

    /// The question for the record of a key.
    fn record(&self, id: KeyId) -> (usize, String) {
        let part = part_of_id(id);
        (part, self.names.record(part, id))
    }
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stored {
    Value(Vec<u8>),
    Absent,
    /// It is not there, and the part has no sign that it has keys.
    NotBegun,
}
