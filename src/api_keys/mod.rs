//! API keys in a store, as operators make and change them: by calls of the admin API, and on the
//! command line.
//!
//! Guarantees: the text of a key is in the answer to its creation and to a rotation, and nowhere
//! else. A change is made only to the record that its caller has seen. Nothing is written from
//! memory: while the store is away, every change fails.

mod file;
mod forms;
mod import;
mod keys;
mod list;
mod rotation;
mod teams;
#[cfg(test)]
mod tests;

use std::fmt;

use thiserror::Error;
use tollgate_core::api_keys::{KeyId, RecordFault};
use tollgate_core::store::keys::StorageError;
use tollgate_core::time::Timestamp;

pub use self::forms::{
    CreatedKey, FoundKey, KeyFields, KeyPatch, NewKeyForm, Rotation, ShownKey, ShownTeam, TeamForm,
    Unique,
};
pub use self::import::{Import, Imported, ImportedKey, MAX_IMPORTED};
pub use self::keys::{Keys, Readers, Seen};
pub use self::list::{Filter, KeyPage};

/// Why a call about keys fails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// There is no such key, or its team is not one of the caller's.
    #[error("there is no such key")]
    NoKey,
    /// There is no such team.
    #[error("there is no such team")]
    NoTeam,
    /// The caller may not give keys to this team.
    #[error("this credential may not use the team {0}")]
    Team(String),
    /// The state of the key does not allow it.
    #[error("{0}")]
    State(&'static str),
    /// A file has the key, and wins over the store.
    #[error(
        "the file {file} of client.keys has the key {id}, and wins over the store: change the key \
         there"
    )]
    InFile {
        /// The key.
        id: KeyId,
        /// The file, as the configuration names it.
        file: String,
    },
    /// What was written has mistakes.
    #[error("{}", shown(.0))]
    Mistakes(Vec<KeyMistake>),
    /// The key of this id is there, and does not accept the imported secrets.
    #[error(
        "the store has the key {0} with another secret: a rotation has replaced this one, or it is \
         another key"
    )]
    OtherSecret(KeyId),
    /// The key of this id is there with the imported secrets, and is revoked.
    #[error("the store has the key {0}, and it is revoked: make another key")]
    Revoked(KeyId),
    /// An imported key, or its id, belongs to a team that is not one of the caller's.
    #[error("the store has this key or its id for another team")]
    OtherTeam,
    /// An interrupted import has noted a digest for another id than the one that was chosen.
    #[error("an earlier import began to store it as {0}: leave the id out, or write this one")]
    OtherId(KeyId),
    /// The store refuses it.
    #[error(transparent)]
    Store(#[from] StorageError),
    /// The store refuses it, after some keys of an import were stored.
    #[error("{error}")]
    Interrupted {
        /// What was done before.
        done: Box<Imported>,
        /// Why it went no further.
        error: StorageError,
    },
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMistake {
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

fn shown(mistakes: &[KeyMistake]) -> String {
    let lines = mistakes.iter().map(|it| match it.help.is_empty() {
        true => it.message.clone(),
        false => format!("{}; {}", it.message, it.help),
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl From<RecordFault> for KeyMistake {
    fn from(fault: RecordFault) -> Self {
        let entry = fault.entry.map_or_else(String::new, |entry| format!(" ({entry})"));
        Self { message: format!("{}{entry}", fault.message), help: fault.advice.to_owned() }
    }
}

impl KeyMistake {
    fn of(field: &str, message: impl fmt::Display) -> Self {
        Self { message: format!("{field}: {message}"), help: String::new() }
    }
}

/// The teams whose keys a caller may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Teams {
    /// All, and keys without a team.
    All,
    /// These.
    Only(Vec<String>),
}

impl Teams {
    /// Whether a key of this team is within the bound.
    pub fn include(&self, team: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Only(teams) => team.is_some_and(|team| teams.iter().any(|it| it == team)),
        }
    }

    fn check(&self, team: Option<&str>) -> Result<(), KeyError> {
        match self.include(team) {
            true => Ok(()),
            false => Err(KeyError::Team(team.unwrap_or("(none)").to_owned())),
        }
    }
}

/// A time as a date, if it is the beginning of a day.
fn date(time: Timestamp) -> String {
    let text = time.to_string();
    text.strip_suffix("T00:00:00.000Z").map_or_else(|| text.clone(), str::to_owned)
}

/// The id in a path or on the command line.
fn id(text: &str) -> Result<KeyId, KeyError> {
    text.parse().map_err(|_| KeyError::NoKey)
}
