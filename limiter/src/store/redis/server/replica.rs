//! Reads that may come from a replica: limits of single keys, and nothing else.
//! Counters are always judged by the master.
//!
//! A replica is asked together with its role. What it says counts only if it
//! follows its master at this moment, or has become the master. Otherwise, and
//! while there is no connection to a replica, the master is asked.

use redis::{Pipeline, Value};

use super::super::link::Link;

/// What the replica at the other end of the link says, if it can be gone by.
pub(super) async fn read(link: &Link, commands: &Pipeline) -> Option<Vec<Value>> {
    if !link.is_connected() {
        return None;
    }
    let mut asked = commands.clone();
    asked.cmd("ROLE");
    let mut answers = link.look_up(&asked).await.ok()?;
    let role = answers.pop()?;
    let is_error = |answer: &Value| matches!(answer, Value::ServerError(_));
    (is_current(&role) && !answers.iter().any(is_error)).then_some(answers)
}

/// Whether a server that has this role has what its master has, but for what is
/// under way.
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
    fn only_a_replica_that_follows_its_master_is_gone_by() {
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
