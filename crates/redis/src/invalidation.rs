//! Exchanges the marks of [`Invalidations`] with the other nodes.
//!
//! The marks are one hash, in one place: `{prefix}:meta:returns`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value, pipe};
use tokio::time::sleep;
use tollgate_core::time::Clock;

use super::failure::StoreError;
use super::server::Servers;
use crate::shared::invalidation::{Invalidations, PARTS};

/// The time between two exchanges. Writing, reading and two calls that take their
/// whole timeout come to less than two seconds.
const INTERVAL: Duration = Duration::from_millis(800);
/// The time until the next exchange after one that failed.
const RETRY: Duration = Duration::from_millis(200);

/// Writes the marks of the parts in which this node has given units back, and reads
/// the marks of all parts.
///
/// # Errors
/// If the store does not answer. The next exchange writes the same parts again.
pub(super) async fn exchange(
    invalidations: &Invalidations,
    servers: &Servers,
    prefix: &str,
    clock: &Clock,
) -> Result<(), StoreError> {
    let key = format!("{prefix}:meta:returns");
    let due = invalidations.take_due();
    let asked = clock.now();
    let read = servers.query(key.as_bytes(), &commands(&key, due)).await.and_then(marks);
    match &read {
        Ok(read) => invalidations.hear(read, asked, clock.now()),
        Err(_) => invalidations.put_back(due),
    }
    read.map(drop)
}

/// Exchanges marks with the other nodes until the task is dropped.
pub(super) async fn keep(
    invalidations: Arc<Invalidations>,
    servers: Rc<Servers>,
    prefix: String,
    clock: Clock,
) {
    servers.settled().await;
    loop {
        let pause = match exchange(&invalidations, &servers, &prefix, &clock).await {
            Ok(()) => INTERVAL,
            // It is not logged: until an exchange succeeds, no state is used for more than a second
            // or two, as [`Invalidations::is_current`] says.
            Err(_) => RETRY,
        };
        sleep(pause).await;
    }
}

/// Writes other marks for the parts that are due, and reads all.
fn commands(key: &str, due: u64) -> Pipeline {
    let mut commands = pipe();
    if due != 0 {
        let write = commands.cmd("HSET").arg(key);
        for part in (0..PARTS).filter(|part| due >> part & 1 == 1) {
            write.arg(part).arg(fastrand::u64(1..));
        }
    }
    commands.cmd("HGETALL").arg(key);
    commands
}

fn marks(answers: Vec<Value>) -> Result<Vec<(usize, u64)>, StoreError> {
    let mut last = None;
    for answer in answers {
        last = Some(answer.extract_error()?);
    }
    let missing = StoreError::InvalidReply("fewer answers than commands");
    redis::from_redis_value(last.ok_or(missing)?)
        .map_err(|_| StoreError::InvalidReply("the marks of give-backs are not numbers"))
}

#[cfg(test)]
mod tests;
