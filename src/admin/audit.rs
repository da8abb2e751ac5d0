//! The record of changes, of calls that show whole keys, and of failed logins: in the process log
//! under the target `audit`, and the last ones in memory.

use std::cell::RefCell;
use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tracing::{info, warn};

/// How many entries are kept.
const MAX_ENTRIES: usize = 256;

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub struct Entry {
    /// Counts up from the start of the process.
    pub number: u64,
    /// When, by the wall clock (RFC 3339).
    pub time: String,
    /// The name of the credential.
    pub actor: String,
    /// The address of the client.
    pub peer: String,
    /// The method and the path, with names in braces for the values; and `?reveal=true` of a call
    /// that shows whole keys.
    pub call: String,
    /// The status of the answer.
    pub status: u16,
    /// What was changed.
    #[serde(flatten)]
    pub change: Change,
}

/// What a call has changed. Of a call that shows whole keys, `after` says how many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The access list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The id of the key, which does not tell the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub before: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub after: Value,
}

impl Change {
    /// A change of a policy.
    pub fn of_policy(name: &str, before: Value, after: Value) -> Self {
        Self { policy: Some(name.to_owned()), before, after, ..Self::default() }
    }
}

/// The last entries.
#[derive(Debug, Default)]
pub struct AuditLog {
    entries: RefCell<VecDeque<Entry>>,
}

impl AuditLog {
    /// Records a change, or the attempt.
    pub fn change(&self, entry: Entry) {
        let Entry { actor, peer, call, status, change, .. } = &entry;
        let policy = change.policy.as_deref();
        let list = change.list.as_deref();
        let key_id = change.key_id.as_deref();
        info!(
            target: "audit", %actor, %peer, %call, status, policy, list, key_id,
            before = %change.before, after = %change.after, "audit: a call that changes something"
        );
        self.keep(entry);
    }

    /// Records that whole keys were shown, or the attempt.
    pub fn reveal(&self, entry: Entry) {
        let Entry { actor, peer, call, status, change, .. } = &entry;
        let policy = change.policy.as_deref();
        let key_id = change.key_id.as_deref();
        info!(
            target: "audit", %actor, %peer, %call, status, policy, key_id,
            after = %change.after, "audit: a call that shows whole keys"
        );
        self.keep(entry);
    }

    /// Records a failed login.
    pub fn failed_login(&self, entry: Entry) {
        let Entry { peer, call, .. } = &entry;
        warn!(target: "audit", %peer, %call, "audit: a login failed: the token is not valid");
        self.keep(entry);
    }

    fn keep(&self, entry: Entry) {
        let mut entries = self.entries.borrow_mut();
        let number = entries.back().map_or(1, |last| last.number + 1);
        if entries.len() == MAX_ENTRIES {
            entries.pop_front();
        }
        entries.push_back(Entry { number, ..entry });
    }

    /// The entries, the last one first.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.borrow().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entries_are_kept_and_numbered() {
        let log = AuditLog::default();
        for status in 0..300 {
            log.change(Entry { status, ..Entry::default() });
        }
        let entries = log.entries();
        assert_eq!(entries.len(), MAX_ENTRIES);
        assert_eq!((entries[0].number, entries[0].status), (300, 299));
        assert_eq!(entries[255].number, 45);
    }
}
