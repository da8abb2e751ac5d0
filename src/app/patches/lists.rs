//! Gives access lists other modes, in the way in which policies are changed.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_redis::EntryVersion;

use super::PatchKeeper;
use crate::patches::{Done, Entry, IfMatch, NewMode, Rejected, entry_of};

impl PatchKeeper {
    /// Gives the list of this name another mode, or that of the file.
    pub async fn set_mode(
        &self,
        list: &str,
        new: NewMode,
        if_match: &IfMatch,
        actor: &str,
    ) -> Result<Done, Rejected> {
        if self.refresh().await.map_err(|error| Rejected::Away(error.to_string()))? {
            self.want();
        }
        let definitions = Arc::clone(&self.base.borrow().definitions);
        let definition = definitions.list(list).ok_or(Rejected::UnknownList)?;
        let name = entry_of(list);
        let (version, present) = self.stored(&name);
        if !if_match.admits_digest(&definition.digest, version.as_ref().map(EntryVersion::as_str)) {
            return Err(Rejected::Stale);
        }
        let now = self.clock.wall();
        let after = new.applied(definition, &definitions, actor, now).map_err(Rejected::Invalid)?;
        let value = after.patch.is_some().then(|| after.encode());
        let same = present.filter(|entry| entry.digest == definition.digest);
        let shown = |entry: Option<Entry>| {
            entry.and_then(|it| it.patch).map_or(Value::Null, |it| json!(it.shown()))
        };
        let before = shown(same.and_then(|it| it.at(now)));
        let change = Done { before, after: shown(Some(after)) };
        // Without an entry, the list has the mode of the file already.
        if value.is_some() || version.is_some() {
            let written = self.write(&name, version, value).await;
            written.map_err(|rejected| rejected.of_sent(&change))?;
            self.apply().await;
        }
        Ok(change)
    }
}
