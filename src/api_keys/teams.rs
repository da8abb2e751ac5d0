//! Teams: what all keys of one have in common.

use std::sync::Arc;

use tollgate_core::api_keys::TeamRecord;
use tollgate_core::store::keys::{
    Expected, StorageError, StoredRecord, TeamWrite, Version, Written,
};

use super::forms::{ShownTeam, TeamForm};
use super::keys::labels;
use super::{KeyError, KeyMistake, Keys, Seen, Teams};

impl Keys {
    /// One team, with its version.
    pub async fn team(&self, name: &str, teams: &Teams) -> Result<(ShownTeam, Version), KeyError> {
        let stored = self.storage.read_team(name).await?.filter(|_| teams.include(Some(name)));
        let stored = stored.ok_or(KeyError::NoTeam)?;
        Ok(((&read(&stored)?).into(), stored.version))
    }

    /// All teams by name.
    pub async fn teams(&self, teams: &Teams) -> Result<Vec<ShownTeam>, KeyError> {
        let mut shown = Vec::new();
        for stored in self.storage.teams().await? {
            let team = read(&stored)?;
            if teams.include(Some(&team.name)) {
                shown.push(ShownTeam::from(&team));
            }
        }
        shown.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(shown)
    }

    /// Makes a team, or replaces what it was. `seen` is none for a team that must not exist.
    /// Returns the team as it was, as it is, and what is written.
    pub async fn set_team(
        &self,
        name: &str,
        form: &TeamForm,
        seen: Option<&Seen>,
        teams: &Teams,
    ) -> Result<(Option<ShownTeam>, ShownTeam, Written), KeyError> {
        teams.check(Some(name))?;
        let mut mistakes = Vec::new();
        let team = TeamRecord {
            plan: form.plan.as_deref().map(Arc::from),
            limits: self.limits(Some(&form.limits), &mut mistakes),
            labels: labels(Some(&form.labels)),
            ..TeamRecord::new(name)
        };
        mistakes.extend(team.faults().into_iter().map(KeyMistake::from));
        let stored = team.to_stored().map_err(|fault| mistakes.push(fault.into()));
        let Some(record) = stored.ok().filter(|_| mistakes.is_empty()) else {
            return Err(KeyError::Mistakes(mistakes));
        };
        let before = self.storage.read_team(name).await?;
        let expected = match (&before, seen) {
            (None, None | Some(Seen::Anything)) => Expected::Absent,
            (Some(before), Some(seen)) if seen.includes(before.version.as_str()) => {
                Expected::Version(before.version.clone())
            }
            _ => return Err(StorageError::Stale.into()),
        };
        let write = TeamWrite { name, expected: &expected, record: &record };
        let written = self.storage.write_team(write).await?;
        let before = before.as_ref().map(read).transpose()?;
        Ok((before.as_ref().map(ShownTeam::from), (&team).into(), written))
    }
}

/// The record that is stored.
fn read(stored: &StoredRecord) -> Result<TeamRecord, KeyError> {
    let read = TeamRecord::from_stored(&stored.bytes);
    Ok(read.map_err(|error| StorageError::Away(error.to_string()))?)
}
