//! Reads from a replica. They are for limits of single keys only. Counters always use the
//! master.
//!
//! The read includes the role of the replica. Its values are used only if it follows its master
//! at this moment, or has become the master. Otherwise, and while no replica is connected, the
//! master is read.
//!
//! In a cluster the read also includes whether each key exists. While a slot moves, the master
//! redirects commands with keys that have moved, but a replica of Redis answers as if they had
//! never existed. So if the replica does not have a key, the master is read.

use redis::{Arg, Cmd, Pipeline, Value};

use super::super::link::Link;

/// The reply to `PTTL` if the key does not exist.
const NO_KEY: Value = Value::Int(-2);

/// The replies of the replica on this link, if they are current. The first argument of each command
/// is its only key. If keys can move to other servers, each of them must exist.
pub(super) async fn read(
    link: &Link,
    commands: &Pipeline,
    keys_can_move: bool,
) -> Option<Vec<Value>> {
    if !link.is_connected() {
        return None;
    }
    let mut asked = commands.clone();
    // After the commands: a key that is there then was there before.
    for key in commands.cmd_iter().filter_map(key).filter(|_| keys_can_move) {
        asked.cmd("PTTL").arg(key);
    }
    asked.cmd("ROLE");
    let mut answers = link.look_up(&asked).await.ok()?;
    let role = answers.pop()?;
    let is_error = |answer: &Value| matches!(answer, Value::ServerError(_));
    if !is_current(&role) || answers.iter().any(is_error) || answers.len() < commands.len() {
        return None;
    }
    let existence = answers.split_off(commands.len());
    (!existence.contains(&NO_KEY)).then_some(answers)
}

/// The first argument of a command.
fn key(command: &Cmd) -> Option<&[u8]> {
    match command.args_iter().nth(1) {
        Some(Arg::Simple(key)) => Some(key),
        _ => None,
    }
}

/// Whether a server with this role has the data of its master, except for what is being
/// transferred.
fn is_current(role: &Value) -> bool {
    let Value::Array(role) = role else { return false };
    let text = |index: usize| match role.get(index) {
        Some(Value::BulkString(text)) => &text[..],
        _ => b"",
    };
    text(0) == b"master" || text(0) == b"slave" && text(3) == b"connected"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(parts: &[&str]) -> Value {
        Value::Array(parts.iter().map(|part| Value::BulkString(part.as_bytes().into())).collect())
    }

    #[test]
    fn only_a_replica_that_follows_its_master_is_current() {
        let cases = [
            (role(&["master", "3129659"]), true),
            (role(&["slave", "127.0.0.1", "9000", "connected", "3167038"]), true),
            (role(&["slave", "127.0.0.1", "9000", "connect", "-1"]), false),
            (role(&["slave", "127.0.0.1", "9000", "sync", "-1"]), false),
            (role(&["slave"]), false),
            (role(&["sentinel"]), false),
            (Value::Array(Vec::new()), false),
            (Value::Okay, false),
        ];
        for (role, expected) in cases {
            assert_eq!(is_current(&role), expected, "{role:?}");
        }
    }
}
