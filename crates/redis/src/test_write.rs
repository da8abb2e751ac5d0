//! The test write: whether a server lets this gateway count, before a call is sent there.
//!
//! A server can accept connections and still refuse to count: the user lacks a right, the memory
//! is full, the server is a node of a cluster. The first command on a new connection is therefore
//! a script that writes, reads and deletes one field. A connection on which it fails is not used.
//!
//! Some servers have slots and all keys, for example a proxy before a cluster. They refuse the
//! test write with keys of two slots, and accept those with one key each. Others refuse `TIME` in
//! scripts. The test write finds both.

use redis::{Cmd, Value, cmd, pipe};
use tollgate_core::time::monotonic;

use super::failure::StoreError;
use super::server_time::ServerTime;
use super::slots;
use super::wire::Wire;

const SCRIPT: &str = include_str!("test_write.lua");

/// The keys of the test write.
#[derive(Clone, Copy, Debug)]
pub(super) enum TestWrite {
    /// Two keys in different slots, on a server that should have all keys.
    TwoSlots,
    /// A key in a slot of a node of a cluster. The slot may have moved; the node is used.
    InSlot(u16),
}

/// The tags of keys in different slots. A node of a cluster has all of their slots only if it
/// has nearly all slots.
const TAGS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// What the test write found about a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Whether the server has slots, and all of them.
    pub(super) has_slots: bool,
    /// Its time, if scripts cannot ask for it.
    pub(super) time: Option<ServerTime>,
}

impl Found {
    /// The time that scripts are given now, in microseconds since 1970. 0 if they can ask for it.
    pub(super) fn given_time_us(&mut self) -> u64 {
        self.time.as_mut().map_or(0, |time| time.next_us(monotonic()))
    }
}

/// Whether scripts ask for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Time,
    Nothing,
}

impl TestWrite {
    /// The command, under a prefix.
    pub(super) fn command(&self, prefix: &str) -> Cmd {
        self.with(prefix, Asks::Time)
    }

    fn with(&self, prefix: &str, asks: Asks) -> Cmd {
        match self {
            Self::TwoSlots => command(prefix, &TAGS[..2], asks),
            Self::InSlot(slot) => command(prefix, &[&tag_of(*slot)], asks),
        }
    }

    /// The first of its keys, which exists only while the command runs.
    pub(super) fn key(&self, prefix: &str) -> String {
        match self {
            Self::TwoSlots => key(prefix, TAGS[0]),
            Self::InSlot(slot) => key(prefix, &tag_of(*slot)),
        }
    }

    /// Reads the reply, and asks further if the server has slots or refuses `TIME` in scripts. A
    /// server that has slots must have those of some keys, and the one for which it has
    /// `redirected` a call before.
    ///
    /// # Errors
    /// If the server does not let this gateway count.
    pub(super) async fn conclude(
        &self,
        wire: &mut Wire,
        reply: Value,
        prefix: &str,
        redirected: Option<u16>,
    ) -> Result<Found, StoreError> {
        let mut found = Found::default();
        let mut tested = self.check(reply);
        if tested.as_ref().is_err_and(StoreError::is_cross_slot) {
            found.has_slots = true;
            tested = check_all_slots(wire, prefix, redirected, Asks::Time).await;
        }
        if tested.as_ref().is_err_and(lacks_time) {
            let asked = monotonic();
            let time = wire.send_one(&ServerTime::question()).await?;
            found.time = Some(ServerTime::read(time, asked, monotonic())?);
            tested = match found.has_slots {
                true => check_all_slots(wire, prefix, redirected, Asks::Nothing).await,
                false => self.check(wire.send_one(&self.with(prefix, Asks::Nothing)).await?),
            };
        }
        tested.map(|()| found)
    }

    fn check(&self, reply: Value) -> Result<(), StoreError> {
        let Err(failed) = succeeded(reply) else { return Ok(()) };
        let is_moving = failed.is_try_again();
        match self {
            Self::InSlot(_) if is_moving || failed.is_redirection() => Ok(()),
            _ => Err(failed),
        }
    }
}

/// Tests whether a server that has slots has all of them.
async fn check_all_slots(
    wire: &mut Wire,
    prefix: &str,
    redirected: Option<u16>,
    asks: Asks,
) -> Result<(), StoreError> {
    let mut commands = pipe();
    for tag in TAGS {
        commands.add_command(command(prefix, &[tag], asks));
    }
    if let Some(slot) = redirected {
        commands.add_command(command(prefix, &[&tag_of(slot)], asks));
    }
    let replies = wire.send(&commands).await?;
    let failed = replies.into_iter().find_map(|reply| succeeded(reply).err());
    failed.map_or(Ok(()), |error| Err(error.outside_of_cluster()))
}

/// The test write with keys that have these tags.
fn command(prefix: &str, tags: &[&str], asks: Asks) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg(SCRIPT).arg(tags.len());
    for tag in tags {
        command.arg(key(prefix, tag));
    }
    command.arg(u8::from(asks == Asks::Time));
    command
}

fn key(prefix: &str, tag: &str) -> String {
    format!("{prefix}:meta:test{{{tag}}}")
}

/// Whether scripts cannot ask for the time.
fn lacks_time(error: &StoreError) -> bool {
    error.said().is_some_and(|said| said.starts_with("TIME: "))
}

/// Whether a test write has succeeded.
fn succeeded(reply: Value) -> Result<(), StoreError> {
    let Value::Array(mut items) = reply else {
        reply.extract_error()?;
        return Ok(());
    };
    match (items.pop(), items.pop()) {
        (Some(Value::ServerError(error)), Some(Value::BulkString(command))) => {
            Err(match StoreError::from(redis::RedisError::from(error)) {
                StoreError::Refused(refusal, text) => {
                    let command = String::from_utf8_lossy(&command);
                    StoreError::Refused(refusal, format!("{command}: {text}"))
                }
                other => other,
            })
        }
        _ => Ok(()),
    }
}

/// A short text whose slot this is.
fn tag_of(slot: u16) -> String {
    let found = tags().find(|tag| slots::slot(tag) == slot).expect("each slot has tags");
    found.iter().map(|&letter| char::from(letter)).collect()
}

/// All texts of four small letters. They are not allocated: about one in 16,384 fits a slot.
fn tags() -> impl Iterator<Item = [u8; 4]> {
    let letters = || b'a'..=b'z';
    let pairs = move || letters().flat_map(move |first| letters().map(move |next| (first, next)));
    pairs().flat_map(move |(a, b)| pairs().map(move |(c, d)| [a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_slot_has_a_tag() {
        let tested: BTreeSet<u16> = TAGS.iter().map(|tag| slots::slot(tag.as_bytes())).collect();
        assert_eq!(tested.len(), TAGS.len());
        for slot in [0, 1, 5_461, 16_383] {
            assert_eq!(slots::slot(format!("p:meta:test{{{}}}", tag_of(slot)).as_bytes()), slot);
        }
        let slots: BTreeSet<u16> = tags().map(|tag| slots::slot(&tag)).collect();
        assert_eq!(slots.len(), 16_384);
    }
}
