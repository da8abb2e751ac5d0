//! Lists of keys, part by part. A page looks at a bounded number of records.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::api_keys::{KeyId, KeyRecord};
use tollgate_core::store::keys::{StoredRecord, part_of_id};
use tollgate_core::store::overrides::PARTS;
use tollgate_core::time::Timestamp;

use super::forms::ShownKey;
use super::keys::read;
use super::{KeyError, KeyMistake, Keys, Teams};

/// The most records that one page looks at, if few of them pass its filter.
const MAX_LOOKED_AT: usize = 2000;
/// The most records of one call.
pub(super) const BATCH: usize = 250;

/// Which keys a list has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'f> {
    /// Those of this team.
    pub team: Option<&'f str>,
    /// Those in this state: `active`, `expired`, `disabled` or `revoked`.
    pub state: Option<&'f str>,
}

/// A page of keys. It may have fewer than were asked for, and there may be more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyPage {
    /// The keys.
    pub items: Vec<ShownKey>,
    /// What `after` is for the next page. Null: this is the last one.
    pub next: Option<String>,
}

impl Keys {
    /// The keys after this one that pass the filter, at most `most`.
    pub async fn list(
        &self,
        filter: Filter<'_>,
        after: Option<&str>,
        most: usize,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<KeyPage, KeyError> {
        let mut items = Vec::new();
        // Without a filter, no record is read that is not in the page.
        let is_whole = filter.team.is_none() && filter.state.is_none() && *teams == Teams::All;
        let batch = if is_whole { most.min(BATCH) } else { BATCH };
        let next = self
            .each(after, batch, async |record, stored| {
                let is_meant = filter.team.is_none_or(|team| record.team.as_deref() == Some(team))
                    && filter.state.is_none_or(|state| record.state(now).word() == state)
                    && teams.include(record.team.as_deref());
                if is_meant {
                    items.push(ShownKey::of(record, Some(stored), now));
                }
                Ok(items.len() < most)
            })
            .await?;
        Ok(KeyPage { items, next })
    }

    /// Looks at the records after this id, at most `most` of them with one call, until `look` returns
    /// false or there were many. Returns the last id that was looked at, if there may be more.
    pub(super) async fn each(
        &self,
        after: Option<&str>,
        most: usize,
        mut look: impl AsyncFnMut(&KeyRecord, &StoredRecord) -> Result<bool, KeyError>,
    ) -> Result<Option<String>, KeyError> {
        let after = after.map(|text| {
            let mistake = |error| KeyError::Mistakes(vec![KeyMistake::of("after", error)]);
            text.parse::<KeyId>().map_err(mistake)
        });
        let mut after = after.transpose()?;
        let mut part = after.map_or(0, part_of_id);
        let mut looked_at = 0;
        while part < PARTS {
            let ids = self.storage.ids(part, after, most).await?;
            let records = self.storage.read_keys(&ids).await?;
            for (id, stored) in ids.iter().zip(records) {
                looked_at += 1;
                let Some(stored) = stored else { continue };
                let goes_on = look(&read(&stored)?, &stored).await?;
                if !goes_on || looked_at >= MAX_LOOKED_AT {
                    return Ok(Some(id.to_string()));
                }
            }
            after = ids.last().copied();
            if ids.len() < most {
                part += 1;
                after = None;
            }
        }
        Ok(None)
    }
}
