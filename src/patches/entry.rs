//! What is kept of the changes of one policy: a JSON document that all nodes read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_core::time::Timestamp;

use super::Values;

/// The changes of one policy. A node that does not know a field cannot read the entry: the field
/// may change what the entry means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Identifies the definition to which the changes belong.
    pub digest: String,
    /// Replaces values of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Change>,
    /// Is judged in shadow beside the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Change>,
}

/// A patch or a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The values that differ from the file.
    pub values: Values,
    /// Why, in the words of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The credential that made the change.
    pub actor: String,
    /// When it was made, in microseconds since the epoch.
    pub since_us: u64,
    /// When it ends. None: it has no end of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_us: Option<u64>,
}

/// A patch or a candidate as the admin API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct Shown {
    #[serde(flatten)]
    pub values: Values,
    /// Why, in the words of the operator.
    pub reason: String,
    /// The credential that made the change.
    pub actor: String,
    /// When it was made (RFC 3339).
    pub since: String,
    /// When it ends. Null: it has no end of its own.
    pub ends: Option<String>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Entry {
    /// The entry in these bytes.
    ///
    /// # Errors
    /// If it is none that this version understands.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// The bytes that are stored.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has texts and numbers only")
    }

    /// The same without changes that have ended. None: there is no other.
    pub fn at(mut self, now: Timestamp) -> Option<Self> {
        for change in [&mut self.patch, &mut self.candidate] {
            if change.as_ref().is_some_and(|it| it.has_ended(now)) {
                *change = None;
            }
        }
        (self.patch.is_some() || self.candidate.is_some()).then_some(self)
    }
}

impl Change {
    /// Whether it has ended at `now`, by the wall clock.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.ends_us.is_some_and(|ends| ends <= now.as_micros())
    }

    /// When it was made.
    pub fn since(&self) -> Timestamp {
        Timestamp::from_micros(self.since_us)
    }

    /// As the admin API shows it.
    pub fn shown(&self) -> Shown {
        Shown {
            values: self.values.clone(),
            reason: self.reason.clone(),
            actor: self.actor.clone(),
            since: self.since().to_string(),
            ends: self.ends_us.map(|ends| Timestamp::from_micros(ends).to_string()),
        }
    }
}
