//! Keys that come from another program, or from a backup.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_core::api_keys::{HeldDigest, KeyDigest, KeyId, KeyRecord, NewKey};
use tollgate_core::store::keys::{Expected, StorageError, Written};

use super::forms::KeyFields;
use super::keys::read;
use super::list::BATCH;
use super::{KeyError, KeyMistake, Keys, Teams};

/// The most keys of one call.
pub const MAX_IMPORTED: usize = 1000;
/// Shorter keys can be found by trial.
const STRONG_CHARS: usize = 22;

/// Keys to be stored.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Import {
    /// The keys, at most 1,000.
    pub keys: Vec<ImportedKey>,
    /// Whether keys with fewer than 22 characters are taken.
    pub weak: bool,
}

/// A key to be stored: its text, or what is kept of the text.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImportedKey {
    /// Its id. Without one, it is that in the text, or a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The whole text, of which only the hash is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The SHA-256 of the text, in hexadecimal digits, or of two texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sha256: Vec<String>,
    /// What is said of it.
    #[serde(flatten)]
    pub fields: KeyFields,
}

/// Does not print the text and the hash.
impl fmt::Debug for ImportedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What became of the keys of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Imported {
    /// The ids of the keys that are stored now.
    pub stored: Vec<String>,
    /// The ids of the keys that were stored before.
    pub present: Vec<String>,
    /// Why others are not stored, each with its number from 1.
    pub refused: Vec<String>,
    /// What does not hold yet: the other nodes could not be told, and find the keys later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What became of one key.
enum Outcome {
    Stored(KeyId, Written),
    Present(KeyId),
}

/// A key as it is to be stored.
struct Candidate {
    /// The id in its text, or the one that was chosen. None: it gets a new one.
    id: Option<KeyId>,
    /// The digests that it must accept.
    digests: Vec<KeyDigest>,
    /// Whether its text has the form of a key, so that its id is found in the text.
    is_native: bool,
}

impl Keys {
    /// Stores keys. Each is stored or refused on its own, so that a second call goes on where the
    /// first one failed. So many keys of the same input were stored `before`.
    ///
    /// # Errors
    /// If the store does not answer. What was done before is in the error.
    pub async fn import(
        &self,
        import: &Import,
        teams: &Teams,
        before: usize,
    ) -> Result<Imported, KeyError> {
        let mut done = Imported::default();
        if import.keys.len() > MAX_IMPORTED {
            let mistake = KeyMistake::of("keys", "a call has at most 1000 keys");
            return Err(KeyError::Mistakes(vec![mistake]));
        }
        for (index, key) in import.keys.iter().enumerate() {
            let number = before + index + 1;
            match self.import_one(key, import.weak, teams).await {
                Ok(Outcome::Stored(id, written)) => {
                    done.stored.push(id.to_string());
                    done.warning = written.warning().or(done.warning);
                }
                Ok(Outcome::Present(id)) => done.present.push(id.to_string()),
                Err(KeyError::Store(error)) => {
                    return Err(KeyError::Interrupted { done: Box::new(done), error });
                }
                Err(error) => done.refused.push(format!("key {number}: {error}")),
            }
        }
        Ok(done)
    }

    async fn import_one(
        &self,
        key: &ImportedKey,
        is_weak: bool,
        teams: &Teams,
    ) -> Result<Outcome, KeyError> {
        teams.check(key.fields.team.as_deref())?;
        let Candidate { id: chosen, digests, is_native } = self.candidate(key, is_weak)?;
        let Some(first) = digests.first() else {
            return Err(mistake("key", &"it has neither a text nor a hash"));
        };
        // The form of a text whose hash alone is known is not known either.
        let foreign = if is_native { &[][..] } else { &digests };
        let mut id = chosen.unwrap_or_else(|| NewKey::generate(&self.form).id);
        // Each digest can lead to another id without a record.
        for _ in 0..=digests.len() {
            self.check_file(id)?;
            let held = digests.iter().map(|digest| HeldDigest { digest: *digest, until: None });
            let record = KeyRecord { digests: held.collect(), ..KeyRecord::new(id, *first) };
            let record = self.record(&key.fields, record)?;
            let known = match self.write(&record, &Expected::Absent, None, foreign).await {
                Ok(written) => return Ok(Outcome::Stored(id, written)),
                Err(KeyError::Store(StorageError::Stale)) => id,
                Err(KeyError::Store(StorageError::Taken(known))) => known,
                Err(error) => return Err(error),
            };
            match self.accepts(known, &digests, teams).await? {
                Some(true) => return Ok(Outcome::Present(known)),
                Some(false) => return Err(KeyError::OtherSecret(known)),
                // An earlier import was interrupted after its entry: it is completed under its id.
                None if chosen.is_none_or(|chosen| chosen == known) => id = known,
                None => return Err(KeyError::OtherId(known)),
            }
        }
        Err(KeyError::OtherId(id))
    }

    /// What is to be stored of a key.
    fn candidate(&self, key: &ImportedKey, is_weak: bool) -> Result<Candidate, KeyError> {
        let mut digests = Vec::new();
        for text in &key.sha256 {
            digests.push(text.parse::<KeyDigest>().map_err(|error| mistake("sha256", &error))?);
        }
        let mut id = None;
        if let Some(text) = &key.key {
            // Spaces around the value of a field do not belong to it.
            if text.is_empty() || text.trim() != text || text.contains(char::is_control) {
                let message = "it is empty, has a space or an end of line at its begin or end, or \
                               has a control character: no client can send it in a field";
                return Err(mistake("key", &message));
            }
            if text.len() < STRONG_CHARS && !is_weak {
                let message = "it has fewer than 22 characters, and can be found by trial; weak \
                               takes it nevertheless";
                return Err(mistake("key", &message));
            }
            id = self.form.parse(text.as_bytes()).ok();
            digests.push(KeyDigest::of(text.as_bytes()));
        }
        let is_native = id.is_some();
        if let Some(text) = &key.id {
            let given = text.parse::<KeyId>().map_err(|error| mistake("id", &error))?;
            // Requests with the key are looked up by the id in its text.
            if let Some(of_text) = id.filter(|it| *it != given) {
                let message = format!("the text of the key has the id {of_text}: leave the id out");
                return Err(mistake("id", &message));
            }
            id = Some(given);
        }
        Ok(Candidate { id, digests, is_native })
    }

    /// Whether the record of this key has all these digests, and none of them ends. None: there is
    /// no record.
    ///
    /// # Errors
    /// If the caller may not know the key, or the key is revoked.
    async fn accepts(
        &self,
        id: KeyId,
        digests: &[KeyDigest],
        teams: &Teams,
    ) -> Result<Option<bool>, KeyError> {
        let Some(stored) = self.storage.read_keys(&[id]).await?.pop().flatten() else {
            return Ok(None);
        };
        let record = read(&stored)?;
        if !teams.include(record.team.as_deref()) {
            return Err(KeyError::OtherTeam);
        }
        let lasting = record.digests.iter().filter(|held| held.until.is_none());
        let has = |digest: &KeyDigest| lasting.clone().any(|held| held.digest.is(digest));
        let has_all = digests.iter().all(has);
        if has_all && record.revoked.is_some() {
            return Err(KeyError::Revoked(id));
        }
        Ok(Some(has_all))
    }

    /// All keys that are not revoked, with their hashes, for a backup.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn export(
        &self,
        mut write: impl FnMut(ImportedKey) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        let mut after = None;
        loop {
            let next = self
                .each(after.as_deref(), BATCH, async |record, _| {
                    if record.revoked.is_none() {
                        write(exported(record))?;
                    }
                    Ok(true)
                })
                .await?;
            match next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

fn mistake(field: &str, error: &dyn fmt::Display) -> KeyError {
    KeyError::Mistakes(vec![KeyMistake::of(field, error)])
}

/// A record as it is imported again.
fn exported(record: &KeyRecord) -> ImportedKey {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
    // A secret with an end would have none when it is imported, so it is left out.
    let lasting = record.digests.iter().filter(|held| held.until.is_none());
    ImportedKey {
        id: Some(record.id.to_string()),
        key: None,
        sha256: lasting.map(|held| held.digest.to_string()).collect(),
        fields: KeyFields {
            name: text(&record.name),
            team: text(&record.team),
            plan: text(&record.plan),
            expires: record.expires.map(super::date),
            disabled: record.disabled,
            limits: record
                .limits
                .iter()
                .map(|(it, limit)| (it.to_string(), limit.to_string()))
                .collect(),
            labels: record
                .labels
                .iter()
                .map(|(it, value)| (it.to_string(), value.to_string()))
                .collect(),
        },
    }
}
