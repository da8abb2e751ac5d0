//! The test write: whether a server lets this gateway count, before a call is sent there.
//!
//! A server can accept connections and still refuse to count: the user lacks a right, the memory
//! is full, the server is a node of a cluster. The first command on a new connection is therefore
//! a script that writes, reads and deletes one field. A connection on which it fails is not used.

use redis::{Cmd, Value, cmd};

use super::failure::{Refusal, StoreError};
use super::slots;

const SCRIPT: &str = include_str!("test_write.lua");

/// The keys of the test write.
#[derive(Clone, Debug)]
pub(super) enum TestWrite {
    /// One key on a server that has all keys.
    OneKey,
    /// Two keys in different slots, on a server that has redirected a call or refused keys in
    /// several slots. It succeeds when the server has no slots any more.
    TwoSlots,
    /// A key in a slot of a node of a cluster. The slot may have moved; the node is used.
    InSlot(u16),
}

impl TestWrite {
    /// The command, under a prefix.
    pub(super) fn command(&self, prefix: &str) -> Cmd {
        let key = |tag: &str| format!("{prefix}:meta:test{{{tag}}}");
        let keys = match self {
            Self::OneKey => vec![format!("{prefix}:meta:test")],
            Self::TwoSlots => vec![key("a"), key("b")],
            Self::InSlot(slot) => vec![key(&tag_of(*slot))],
        };
        let mut command = cmd("EVAL");
        command.arg(SCRIPT).arg(keys.len()).arg(keys);
        command
    }

    /// Reads the reply.
    ///
    /// # Errors
    /// If the server does not let this gateway count.
    pub(super) fn check(&self, reply: Value) -> Result<(), StoreError> {
        let failed = match reply {
            Value::Array(mut items) => match (items.pop(), items.pop()) {
                (Some(Value::ServerError(error)), Some(Value::BulkString(command))) => {
                    match StoreError::from(redis::RedisError::from(error)) {
                        StoreError::Refused(refusal, text) => {
                            let command = String::from_utf8_lossy(&command);
                            StoreError::Refused(refusal, format!("{command}: {text}"))
                        }
                        other => other,
                    }
                }
                _ => return Ok(()),
            },
            other => match other.extract_error() {
                Ok(_) => return Ok(()),
                Err(error) => StoreError::from(error),
            },
        };
        let is_moving = matches!(failed, StoreError::Refused(Refusal::TryAgain, _));
        match self {
            Self::InSlot(_) if is_moving || failed.is_redirection() => Ok(()),
            _ => Err(failed),
        }
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
        for slot in [0, 1, 5_461, 16_383] {
            assert_eq!(slots::slot(format!("p:meta:test{{{}}}", tag_of(slot)).as_bytes()), slot);
        }
        let slots: BTreeSet<u16> = tags().map(|tag| slots::slot(&tag)).collect();
        assert_eq!(slots.len(), 16_384);
    }
}
