//! The life of one key: made, shown, changed and revoked.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::api_keys::{KeyDigest, KeyForm, KeyId, KeyLimit, KeyRecord, NewKey};
use tollgate_core::policy::{KeySettings, Policy, UnfitLimit};
use tollgate_core::store::keys::{
    Expected, KeyStorage, KeyWrite, StorageError, StoredRecord, Version, Written,
};
use tollgate_core::time::{Span, Timestamp};

use super::file::FileKeys;
use super::forms::{CreatedKey, FoundKey, KeyFields, KeyPatch, NewKeyForm, ShownKey};
use super::{KeyError, KeyMistake, Teams, id};

/// How long the record of a revoked key stays.
pub const KEPT_AFTER_REVOCATION: Span = Span::from_secs(30 * 86_400);
/// How often an id is drawn that another key does not have.
const DRAWS: usize = 4;

/// Reads what is written as in a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Readers {
    /// A limit, such as `500/minute` or `2.50 usd/day`.
    pub limit: fn(&str) -> Result<KeyLimit, String>,
    /// A date, such as `2027-06-30`.
    pub date: fn(&str) -> Result<Timestamp, String>,
    /// A length of time, such as `1d`.
    pub span: fn(&str) -> Result<Span, String>,
}

/// What the caller of a change has seen of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// One of these versions.
    Versions(Vec<String>),
    /// It changes whatever is there.
    Anything,
}

impl Seen {
    /// Whether a record with this version is changed.
    pub fn includes(&self, version: &str) -> bool {
        match self {
            Self::Versions(versions) => versions.iter().any(|it| it == version),
            Self::Anything => true,
        }
    }
}

/// The keys of one store.
#[derive(Clone, Debug)]
pub struct Keys {
    pub(super) storage: Rc<dyn KeyStorage>,
    pub(super) form: KeyForm,
    pub(super) readers: Readers,
    /// The keys that win over those of the store.
    pub(super) file: Option<FileKeys>,
    /// The policies that limits are for, as far as they are known.
    policies: Vec<Arc<Policy>>,
}

impl Keys {
    /// The keys in this storage. New ones have the usual form.
    pub fn new(storage: Rc<dyn KeyStorage>, readers: Readers) -> Self {
        Self { storage, form: KeyForm::default(), readers, file: None, policies: Vec::new() }
    }

    /// The same keys, under these settings of `client.keys`. Limits must be in the units of these
    /// policies.
    #[must_use]
    pub fn under<'p>(
        &self,
        settings: Option<&KeySettings>,
        policies: impl IntoIterator<Item = &'p Arc<Policy>>,
    ) -> Self {
        Self {
            form: settings.map(|settings| settings.form.clone()).unwrap_or_default(),
            file: settings.and_then(FileKeys::of),
            policies: policies.into_iter().cloned().collect(),
            ..self.clone()
        }
    }

    /// Where their records are.
    pub fn storage(&self) -> &dyn KeyStorage {
        &*self.storage
    }

    /// The same keys, whatever the file has.
    #[must_use]
    pub fn without_file(&self) -> Self {
        Self { file: None, ..self.clone() }
    }

    /// The file, if it has this key.
    pub fn file_with(&self, id: KeyId) -> Option<&str> {
        self.file.as_ref()?.with(id)
    }

    /// A key of the file cannot be changed here.
    pub(super) fn check_file(&self, id: KeyId) -> Result<(), KeyError> {
        self.file.as_ref().map_or(Ok(()), |file| file.check(id))
    }

    /// Makes a key, with this id or a new one. Returns its text and its version.
    pub async fn create(
        &self,
        chosen: Option<&str>,
        form: &NewKeyForm,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<(CreatedKey, Version), KeyError> {
        let chosen = chosen.map(|text| {
            let mistake = |error| KeyError::Mistakes(vec![KeyMistake::of("id", error)]);
            text.parse::<KeyId>().map_err(mistake)
        });
        let chosen = chosen.transpose()?;
        teams.check(form.fields.team.as_deref())?;
        for _ in 0..DRAWS {
            let new = match chosen {
                Some(id) => NewKey::with_id(&self.form, id),
                None => NewKey::generate(&self.form),
            };
            self.check_file(new.id)?;
            let record = self.record(&form.fields, KeyRecord::new(new.id, new.digest))?;
            let mut written = self.write(&record, &Expected::Absent, None, &[]).await;
            if form.first && written == Err(StorageError::NotBegun.into()) {
                match self.storage.begin().await {
                    // The key is announced for itself.
                    Ok(()) | Err(StorageError::NotAnnounced(_)) => {}
                    Err(error) => return Err(error.into()),
                }
                written = self.write(&record, &Expected::Absent, None, &[]).await;
            }
            match written {
                Err(KeyError::Store(StorageError::Stale)) if chosen.is_none() => {}
                Err(error) => return Err(error),
                Ok(written) => {
                    let shown = ShownKey::of(&record, None, now);
                    return Ok(CreatedKey::of(new.text, shown, written));
                }
            }
        }
        Err(StorageError::Stale.into())
    }

    /// One key, with its version.
    pub async fn show(
        &self,
        text: &str,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<(ShownKey, Version), KeyError> {
        let (record, stored) = self.known(text, teams).await?;
        Ok((ShownKey::of(&record, Some(&stored), now), stored.version))
    }

    /// Changes fields of a key. Returns it as it was, as it is, and what is written.
    pub async fn change(
        &self,
        text: &str,
        patch: &KeyPatch,
        seen: &Seen,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<(ShownKey, ShownKey, Written), KeyError> {
        let (before, stored) = self.seen(text, seen, teams).await?;
        if before.revoked.is_some() {
            return Err(KeyError::State("a revoked key stays revoked: make another one"));
        }
        let after = self.patched(&before, patch)?;
        teams.check(after.team.as_deref())?;
        let expected = Expected::Version(stored.version.clone());
        let written = self.write(&after, &expected, None, &[]).await?;
        let shown = |record| ShownKey::of(record, Some(&stored), now);
        Ok((shown(&before), shown(&after), written))
    }

    /// Revokes a key for ever. A key that is revoked stays as it is.
    pub async fn revoke(
        &self,
        text: &str,
        seen: &Seen,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<(ShownKey, ShownKey, Written), KeyError> {
        let (before, stored) = self.seen(text, seen, teams).await?;
        let shown = |record| ShownKey::of(record, Some(&stored), now);
        let after = KeyRecord { revoked: before.revoked.or(Some(now)), ..before.clone() };
        // It is written again if it was revoked before: the other nodes may not know it.
        let expected = Expected::Version(stored.version.clone());
        let foreign = self.foreign(&after).await?;
        let written = self.write(&after, &expected, Some(KEPT_AFTER_REVOCATION), &foreign).await?;
        Ok((shown(&before), shown(&after), written))
    }

    /// The key that a text belongs to.
    pub async fn find(
        &self,
        text: &str,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<FoundKey, KeyError> {
        let text = text.trim().as_bytes();
        let digest = KeyDigest::of(text);
        let of_file = self.file.as_ref();
        if let Some(found) =
            of_file.and_then(|file| file.find(&self.form, text, &digest, teams, now))
        {
            return Ok(found);
        }
        let id = match self.form.parse(text) {
            Ok(id) => Some(id),
            Err(_) => self.storage.id_of(&digest).await?,
        };
        let id = id.ok_or(KeyError::NoKey)?;
        let (record, _) = self.known(id.as_str(), teams).await?;
        if !record.digests.iter().any(|held| held.digest.is(&digest)) {
            return Err(KeyError::NoKey);
        }
        let team = record.team.as_deref().map(str::to_owned);
        Ok(FoundKey { id: id.to_string(), team, state: record.state(now).into() })
    }

    /// The record that a caller may see.
    pub(super) async fn known(
        &self,
        text: &str,
        teams: &Teams,
    ) -> Result<(KeyRecord, StoredRecord), KeyError> {
        let ids = [id(text)?];
        let stored = self.storage.read_keys(&ids).await?.pop().flatten().ok_or(KeyError::NoKey)?;
        let record = read(&stored)?;
        match teams.include(record.team.as_deref()) {
            true => Ok((record, stored)),
            false => Err(KeyError::NoKey),
        }
    }

    /// The record, if it is as its caller has seen it.
    pub(super) async fn seen(
        &self,
        text: &str,
        seen: &Seen,
        teams: &Teams,
    ) -> Result<(KeyRecord, StoredRecord), KeyError> {
        self.check_file(id(text)?)?;
        let (record, stored) = self.known(text, teams).await?;
        match seen.includes(stored.version.as_str()) {
            true => Ok((record, stored)),
            false => Err(StorageError::Stale.into()),
        }
    }

    pub(super) async fn write(
        &self,
        record: &KeyRecord,
        expected: &Expected,
        lasts: Option<Span>,
        foreign: &[KeyDigest],
    ) -> Result<Written, KeyError> {
        let bytes = record.to_stored().map_err(|fault| KeyError::Mistakes(vec![fault.into()]))?;
        let write = KeyWrite { id: record.id, expected, record: &bytes, lasts, foreign };
        Ok(self.storage.write_key(write).await?)
    }

    /// The digests of a key by which it is found.
    async fn foreign(&self, record: &KeyRecord) -> Result<Vec<KeyDigest>, KeyError> {
        let mut foreign = Vec::new();
        for held in &record.digests {
            if self.storage.id_of(&held.digest).await? == Some(record.id) {
                foreign.push(held.digest);
            }
        }
        Ok(foreign)
    }

    /// The record of a new key.
    pub(super) fn record(&self, form: &KeyFields, new: KeyRecord) -> Result<KeyRecord, KeyError> {
        let some = |text: &Option<String>| Some(text.clone());
        let patch = KeyPatch {
            name: some(&form.name),
            team: some(&form.team),
            plan: some(&form.plan),
            expires: some(&form.expires),
            disabled: Some(Some(form.disabled)),
            limits: Some(Some(form.limits.clone())),
            labels: Some(Some(form.labels.clone())),
        };
        self.patched(&new, &patch)
    }

    /// A record with the changes of a patch.
    fn patched(&self, before: &KeyRecord, patch: &KeyPatch) -> Result<KeyRecord, KeyError> {
        let mut mistakes = Vec::new();
        let mut after = before.clone();
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        for (field, change) in [
            (&mut after.name, &patch.name),
            (&mut after.team, &patch.team),
            (&mut after.plan, &patch.plan),
        ] {
            if let Some(value) = change {
                *field = text(value);
            }
        }
        if let Some(expires) = &patch.expires {
            after.expires = match expires.as_deref().map(self.readers.date).transpose() {
                Ok(expires) => expires,
                Err(error) => {
                    mistakes.push(KeyMistake::of("expires", error));
                    None
                }
            };
        }
        if let Some(disabled) = patch.disabled {
            after.disabled = disabled.unwrap_or_default();
        }
        if let Some(limits) = &patch.limits {
            after.limits = self.limits(limits.as_ref(), &mut mistakes);
        }
        if let Some(given) = &patch.labels {
            after.labels = labels(given.as_ref());
        }
        mistakes.extend(after.faults().into_iter().map(KeyMistake::from));
        if mistakes.is_empty() { Ok(after) } else { Err(KeyError::Mistakes(mistakes)) }
    }

    /// The limits that are written.
    pub(super) fn limits(
        &self,
        written: Option<&BTreeMap<String, String>>,
        mistakes: &mut Vec<KeyMistake>,
    ) -> Vec<(Arc<str>, KeyLimit)> {
        let mut limits = Vec::new();
        for (policy, text) in written.into_iter().flatten() {
            match self.limit(policy, text) {
                Ok(limit) => limits.push((Arc::from(&**policy), limit)),
                Err(error) => mistakes.push(KeyMistake::of(&format!("limits: {policy}"), error)),
            }
        }
        limits
    }

    /// A limit of this policy. A policy of another node may not be known here.
    fn limit(&self, policy: &str, text: &str) -> Result<KeyLimit, String> {
        let limit = (self.readers.limit)(text)?;
        let known = self.policies.iter().find(|it| *it.name == *policy);
        match known.map(|known| known.key_limit(limit)) {
            Some(Err(UnfitLimit::Refused(error))) => Err(error.to_string()),
            // Under a limit that is only ignored, the policy's own holds.
            Some(Err(UnfitLimit::Ignored(_)) | Ok(_)) | None => Ok(limit),
        }
    }
}

/// The labels that are written.
pub(super) fn labels(written: Option<&BTreeMap<String, String>>) -> Vec<(Arc<str>, Arc<str>)> {
    let label = |(name, value): (&String, &String)| (Arc::from(&**name), Arc::from(&**value));
    written.into_iter().flatten().map(label).collect()
}

/// The record that is stored.
pub(super) fn read(stored: &StoredRecord) -> Result<KeyRecord, KeyError> {
    let read = KeyRecord::from_stored(&stored.bytes);
    Ok(read.map_err(|error| StorageError::Away(error.to_string()))?)
}
